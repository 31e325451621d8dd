"""Resize example inputs to other lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Axis = tuple[int, int]
"""An axis of an input: the tensor's number among the flattened arguments' tensors, and the axis."""

Sizes = dict[Axis, int]
"""Axis → its new length."""


def tensors_of(args: Any, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among a call's arguments, in the order of their numbers."""
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]


def resized(args: Any, kwargs: dict[str, Any], sizes: Sizes) -> tuple[Any, dict[str, Any]]:
    """Return a call's arguments with some axes longer or shorter.

    Tensors are resampled along an axis: entries are repeated or dropped, in order, so that indices stay in range, masks
    stay masks and sorted lengths stay sorted. Floating-point numbers are then scaled by random factors in [0.5, 1),
    since repeated samples could hide an error.

    Args:
        args: positional arguments.
        kwargs: keyword arguments.
        sizes: the new lengths of the axes that change.
    """
    import torch
    from torch.utils import _pytree as pytree

    generator = torch.Generator().manual_seed(7)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    made, number = [], 0
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            changes = {axis: size for (tensor, axis), size in sizes.items() if tensor == number}
            leaf = _stretched(leaf, changes, generator) if changes else leaf
            number += 1
        made.append(leaf)
    args, kwargs = pytree.tree_unflatten(made, spec)
    return args, kwargs


def with_first_indices(args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a call's arguments with zeros for integers: indices that are valid for any length."""
    import torch
    from torch.utils import _pytree as pytree

    def first(leaf: Any) -> Any:
        is_index = isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.int64, torch.int32)
        return torch.zeros_like(leaf) if is_index else leaf

    args, kwargs = pytree.tree_map(first, (args, kwargs))
    return args, kwargs


def _stretched(tensor: torch.Tensor, changes: dict[int, int], generator: torch.Generator) -> torch.Tensor:
    import torch

    made = tensor.detach()
    for axis, size in changes.items():
        old = made.shape[axis]
        # Floor division keeps the first entry first; an empty axis has nothing to repeat.
        index = torch.arange(size) * old // size if old else torch.zeros(0, dtype=torch.int64)
        made = made.index_select(axis, index.to(made.device))
    if made.is_floating_point() or made.is_complex():
        factor = 0.5 + 0.5 * torch.rand(made.shape, generator=generator, dtype=torch.float64)
        made = made * factor.to(made.device, made.dtype if made.is_floating_point() else made.real.dtype)
    return made
