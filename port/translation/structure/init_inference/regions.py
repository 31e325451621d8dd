"""Regions of an array as slices: elements that share one initialisation."""

from __future__ import annotations

import numpy as np

from port.translation.ir import syntax
from port.translation.ir.expr import code

_MOST = 4

Box = tuple[slice, ...]


def boxes_of(where: np.ndarray) -> list[Box] | None:
    """The boxes that make up a region: one, or several along one axis; None if the region is not of that form."""
    if not where.any():
        return []
    box = _around(where)
    if where[box].all():
        return [box]
    for axis in range(where.ndim):
        layers = np.flatnonzero(where.any(axis=tuple(other for other in range(where.ndim) if other != axis)))
        runs = np.split(layers, np.flatnonzero(np.diff(layers) > 1) + 1)
        parts = [_within(where, axis, run) for run in runs] if 1 < len(runs) <= _MOST else []
        if parts and all(part is not None for part in parts):
            return [part for part in parts if part is not None]
    return None


def _within(where: np.ndarray, axis: int, run: np.ndarray) -> Box | None:
    """The box formed by a region's layers along an axis; None if they do not form one."""
    part = np.zeros_like(where)
    index = (*[slice(None)] * axis, slice(run[0], run[-1] + 1))
    part[index] = where[index]
    box = _around(part)
    return box if part[box].all() else None


def _around(where: np.ndarray) -> Box:
    return tuple(slice(int(axis.min()), int(axis.max()) + 1) for axis in np.nonzero(where))


def index_of(box: Box, shape: tuple[int, ...], *, plain: bool) -> syntax.Expr:
    """Write a box as an index: ``jnp.s_[0]``, ``jnp.s_[:, 4:8]``.

    Args:
        box: a box of the array.
        shape: the array's shape.
        plain: whether an axis of one layer may be indexed by a number, and so dropped.
    """
    parts: list[syntax.Expr] = []
    for part, size in zip(box, shape, strict=True):
        if plain and part.stop == part.start + 1 and size > 1:
            parts.append(syntax.Const(part.start))
            continue
        start = None if part.start == 0 else syntax.Const(part.start)
        stop = None if part.stop == size else syntax.Const(part.stop)
        parts.append(syntax.Slice(start, stop))
    while len(parts) > 1 and parts[-1] == syntax.Slice():
        parts.pop()
    index = parts[0] if len(parts) == 1 else syntax.Tuple(tuple(parts))
    return syntax.Subscript(code("jnp.s_"), index)
