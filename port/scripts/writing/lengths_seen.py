"""Find inputs whose length differs in each batch; JAX compiles the update again for each length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

MOST_SHAPES = 2
"""Shapes that any input may have: a full batch's, and the last batch's."""


def remarks_on_lengths(observed: Sequence[Mapping[str, torch.Tensor]]) -> list[str]:
    """A remark, if some inputs have about as many shapes as there are batches.

    Args:
        observed: the inputs of each watched step.
    """
    shapes: dict[str, set[torch.Size]] = {}
    for inputs in observed:
        for name, tensor in inputs.items():
            shapes.setdefault(name, set()).add(tensor.shape)
    found = [name for name, seen in shapes.items() if len(seen) > MOST_SHAPES]
    if not found:
        return []
    return [
        f"{', '.join(found)}: the length differs in each batch, and JAX compiles train_step again for each new one: "
        "pad to one length, or to a few, where the batches are made"
    ]
