"""The parameters that a saved optimizer does not step: frozen ones, and those that it has never stepped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.optim.complete import kept_keys
from port.optim.naming import Names
from port.pairs.optimizers import pair_of_optimizer

if TYPE_CHECKING:
    import torch


def freeze(
    optimizer: torch.optim.Optimizer, names: Names, frozen: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Set requires_grad=False for parameters that are not stepped.

    torch skips a parameter without a gradient, weight decay included, and creates its state with its first gradient. So
    one without state, if the optimizer stores some and others have theirs, has never been stepped. For an optimizer
    that stores nothing, as SGD without momentum, this cannot be known.

    Args:
        optimizer: with its state.
        names: the names of its parameters, group by group.
        frozen: the names of those that the model does not train.

    Returns:
        The names of the frozen ones, and of the others that were never stepped.
    """
    known, pair = set(frozen), pair_of_optimizer(optimizer)
    is_stepped = any(optimizer.state.values()) and not pair.closure  # LBFGS has one state for all of them
    still: tuple[list[str], list[str]] = [], []
    for group, named in zip(optimizer.param_groups, names, strict=True):
        shapes = {name: tuple(tensor.shape) for name, tensor in zip(named, group["params"], strict=True)}
        keys = kept_keys(pair, group, shapes) if is_stepped else {}
        for name, tensor in zip(named, group["params"], strict=True):
            if name in known:
                still[0].append(name)
            elif keys.get(name) and not optimizer.state.get(tensor):
                still[1].append(name)
            else:
                continue
            tensor.requires_grad_(False)
    return tuple(still[0]), tuple(still[1])
