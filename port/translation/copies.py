"""Copies of torch modules, so that the user's own stay as they are."""

from __future__ import annotations

import copy
from typing import Any


def copied(module: Any) -> Any:
    """A copy of a torch module, with all that it holds.

    Tensors that an earlier run computed and that the module kept, as the last attention weights, or as a weight that
    ``torch.nn.utils.weight_norm`` computes, are detached in the copy: torch copies no tensor that has a history.
    """
    import torch
    from torch.utils import _pytree as pytree

    apart: dict[int, Any] = {}
    for inner in module.modules():
        for held in pytree.tree_leaves(list(vars(inner).values())):
            if isinstance(held, torch.Tensor) and not held.is_leaf:
                apart[id(held)] = held.detach().clone()
    return copy.deepcopy(module, apart)
