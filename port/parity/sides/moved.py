"""A copy of a module and its inputs with every number moved in its last places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from port.judging.limits import CONTROL_UNITS
from port.parity.sides.copies import copied

if TYPE_CHECKING:
    import torch


def moved(module: torch.nn.Module, inputs: Any, seed: int) -> tuple[torch.nn.Module, Any]:
    """Copy a module and its inputs, with every floating number moved by a few units in its last place.

    Args:
        module: the module; it is not changed.
        inputs: any structure of tensors or arrays.
        seed: the seed of the directions, up or down.
    """
    import torch
    from torch.utils import _pytree as pytree

    generator = torch.Generator().manual_seed(seed)

    def is_mask(leaf: Any) -> bool:
        return isinstance(leaf, np.ndarray | torch.Tensor) and bool(((leaf == 0) | (leaf == 1)).all())

    def move(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray) and leaf.dtype in (np.float32, np.float64):
            return move(torch.from_numpy(leaf.copy())).numpy()
        if not isinstance(leaf, torch.Tensor) or leaf.dtype not in (torch.float32, torch.float64):
            return leaf
        if leaf.layout is not torch.strided or type(leaf.data) is not torch.Tensor:
            return leaf
        unit = torch.nextafter(leaf.abs(), torch.full_like(leaf, torch.inf)) - leaf.abs()
        up = torch.rand(leaf.shape, generator=generator, dtype=torch.float64) < 0.5
        # Zeros stay zero: they may be switches.
        return torch.where((leaf == 0) | ~leaf.isfinite(), leaf, leaf + CONTROL_UNITS * torch.where(up, unit, -unit))

    other = copied(module)
    # A constant of integers is exact, as is a mask made with it; running statistics are not constants.
    counted = {id(held) for name, held in other.named_buffers() if not _is_statistic(name) and _is_whole(held)}
    for tensor in {id(held): held for held in (*other.parameters(), *other.buffers())}.values():
        if id(tensor) not in counted:
            tensor.data = move(tensor.data)
    # A floating mask is compared with a constant mask, so it stays exact.
    return other, pytree.tree_map(lambda leaf: leaf if is_mask(leaf) else move(leaf), inputs)


def _is_statistic(name: str) -> bool:
    return name.rpartition(".")[2] in ("running_mean", "running_var")


def _is_whole(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and bool((tensor == tensor.round()).all())
