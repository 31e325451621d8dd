"""Emit transposes with the most specific jax.numpy function."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.errors import NoPair
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.layout import Layout, moved


def brought(expression: syntax.Expr, has: Layout, layout: Layout) -> syntax.Expr:
    """Bring an array from one layout to another.

    Raises:
        NoPair: the target layout has a fold that the array does not have.
    """
    had = has
    if has.folded is not None and has.folded != layout.folded:
        # Unflatten the axis, put its parts into torch's order, and flatten it again.
        block, axis = has.folded, has.axis(has.folded.axis)
        n = has.rank
        parts = tuple(block.shape[part] for part in block.order)
        order = tuple(axis + block.order.index(part) for part in range(len(parts)))
        sizes: list[Any] = [code("x.shape[k]", x=expression, k=k) for k in range(n)]
        apart = (*sizes[:axis], *parts, *sizes[axis + 1 :])
        axes = (*range(axis), *order, *range(axis + len(parts), n + len(parts) - 1))
        whole = (*sizes[:axis], -1, *sizes[axis + 1 :])
        expression = code(
            "x.reshape(apart).transpose(axes).reshape(whole)", x=expression, apart=apart, axes=axes, whole=whole
        )
        has = replace(has, folded=None)
    if has.order != layout.order:
        expression = transposed(expression, moved(has, layout))
    if layout.folded is not None and layout.folded != had.folded:
        raise NoPair("the elements of a flattened axis cannot be reordered here")
    return expression


def transposed(expression: syntax.Expr, axes: tuple[int, ...]) -> syntax.Expr:
    """Return the first that fits of ``matrix_transpose``, ``swapaxes``, ``moveaxis`` and ``transpose``."""
    changed = [k for k, axis in enumerate(axes) if k != axis]
    n = len(axes)
    if len(changed) == 2:
        one, other = changed
        if other == n - 1:
            one, other = one - n, -1
        if (one, other) == (-2, -1):
            return code("jnp.matrix_transpose(x)", x=expression)
        return code("jnp.swapaxes(x, one, other)", x=expression, one=one, other=other)
    for source in range(n):
        for target in range(n):
            order = [axis for axis in range(n) if axis != source]
            order.insert(target, source)
            if tuple(order) == tuple(axes):
                ends = tuple(k - n if k >= n - 1 else k for k in (source, target))
                return code("jnp.moveaxis(x, source, target)", x=expression, source=ends[0], target=ends[1])
    return code("jnp.transpose(x, axes)", x=expression, axes=tuple(axes))
