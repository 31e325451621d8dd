"""The parameters that a loss depends on, by autograd's graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from port.scripts.observing.known_models import KnownModels


def parameters_reached(loss: torch.Tensor, models: KnownModels) -> Iterator[str]:
    """The names of the parameters for which ``loss.backward()`` computes a gradient."""
    pending, seen = [loss.grad_fn], set[Any]()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and (name := models.parameter_name(variable)) is not None:
            yield name
        pending += [before for before, _ in node.next_functions]
