"""Write fixed tables as expressions that yield exactly their numbers."""

from __future__ import annotations

import numpy as np

from port.translation.ir import syntax
from port.translation.ir.expr import code, literal
from port.translation.structure.init_inference.constructions import FEW, shortest


def formula(array: np.ndarray, dtype: syntax.Expr, shape: tuple[int, ...] | None = None) -> syntax.Expr | None:
    """Find an expression for a table; None where it has no simple one.

    Args:
        array: the table.
        dtype: the expression for its dtype.
        shape: its lengths, which may know their origin.
    """
    shape = array.shape if shape is None else shape
    if not array.size or (array == array.flat[0]).all():
        number = shortest(array.flat[0]) if array.size else 0.0
        return code("jnp.full(shape, number, dtype)", shape=shape, number=number, dtype=dtype)
    return (
        _count(array, dtype, shape)
        or _identity(array, dtype, shape)
        or _triangle(array, dtype, shape)
        or _few(array, dtype)
    )


def _count(array: np.ndarray, dtype: syntax.Expr, shape: tuple[int, ...]) -> syntax.Expr | None:
    """``jnp.arange(0, 24, 2)``, in any shape."""
    flat = array.reshape(-1)
    if array.dtype.kind not in "iuf" or not np.isfinite(flat).all() or (flat != flat.round()).any():
        return None
    start, step = int(flat[0]), int(flat[1]) - int(flat[0]) if flat.size > 1 else 1
    end = start + step * flat.size
    if not step or not np.array_equal(flat, np.arange(start, end, step)):
        return None
    longest = max(shape)
    end = longest if (start, step, longest) == (0, 1, end) else end  # a length may know its origin
    bounds = [end] if (start, step) == (0, 1) else [start, end] if step == 1 else [start, end, step]
    made: syntax.Expr = syntax.Call(code("jnp.arange"), tuple(map(literal, bounds)), (syntax.Keyword("dtype", dtype),))
    return made if array.ndim == 1 else code("made.reshape(shape)", made=made, shape=shape)


def _identity(array: np.ndarray, dtype: syntax.Expr, shape: tuple[int, ...]) -> syntax.Expr | None:
    if array.ndim == 2 and array.shape[0] == array.shape[1] and (array == np.eye(len(array))).all():
        return code("jnp.eye(n, dtype=dtype)", n=shape[0], dtype=dtype)
    return None


def _triangle(array: np.ndarray, dtype: syntax.Expr, shape: tuple[int, ...]) -> syntax.Expr | None:
    """A mask: one number below or above a diagonal, zeros elsewhere."""
    others = np.unique(array[array != 0])
    if array.ndim < 2 or others.size != 1:
        return None
    full = np.full(array.shape, others[0], array.dtype)
    filled = code("jnp.full(shape, number, dtype)", shape=shape, number=shortest(others[0]), dtype=dtype)
    for name in ("tril", "triu"):
        for diagonal in (0, 1, -1):
            if np.array_equal(array, getattr(np, name)(full, diagonal)):
                shifted = (syntax.Keyword("k", literal(diagonal)),) if diagonal else ()
                return syntax.Call(code(f"jnp.{name}"), (filled,), shifted)
    return None


def _few(array: np.ndarray, dtype: syntax.Expr) -> syntax.Expr | None:
    """The numbers themselves."""
    if array.size > FEW:
        return None
    values = np.array([shortest(number) for number in array.flat], object).reshape(array.shape).tolist()
    return code("jnp.array(values, dtype)", values=values, dtype=dtype)
