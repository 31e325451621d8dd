"""Arrays reduced to the rows of some tokens, and the rules of JAX primitives for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError
from port.nn.flat_trace import Equation, Traced

ELEMENTWISE = frozenset(
    {"abs", "add", "add_any", "clamp", "div", "integer_pow", "max", "min", "mul", "neg", "pow", "rem", "sign", "sub"}
    | {"cbrt", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sqrt", "square"}
    | {"cos", "cosh", "sin", "sinh", "tan", "tanh"}
    | {"and", "eq", "ge", "gt", "is_finite", "le", "lt", "ne", "not", "or", "select_n", "xor"}
    | {"ceil", "convert_element_type", "floor", "nextafter", "reduce_precision", "round"}
    | {"copy", "copy_p", "stop_gradient"}
)
REDUCTIONS = frozenset(
    {"argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum"}
)


@dataclass(frozen=True)
class Rows:
    """An array that depends on tokens, reduced to the rows of the new tokens.

    Attributes:
        array: the rows.
        tokens: the axis of the new tokens; None if only the last token's row is left.
        others: the axis of all tokens that each new one may attend to; None without.
    """

    array: jax.Array
    tokens: int | None
    others: int | None = None


class Read(Protocol):
    """The new tokens of a text.

    Attributes:
        traced: the trace of the model on a whole text.
        tokens: number of new tokens.
        position: of the first of them.
    """

    traced: Traced
    tokens: int
    position: jax.Array | int


def array_of(one: Any) -> Any:
    """Unwrap `Rows`."""
    return one.array if isinstance(one, Rows) else one


def refused(equation: Equation, why: str = "over the tokens") -> UsageError:
    """Build the error for an operation that does not work on the rows of single tokens."""
    shapes = ", ".join(str(list(atom.aval.shape)) for atom in equation.inputs)
    return UsageError(
        f"{equation.primitive.name} of {shapes} {why}: incremental decoding needs tokens to mix only in matrix "
        "products, as attention's queries, keys and values do"
    )


def rows_of(read: Read, table: Any, axis: int) -> Any:
    """Select the rows of the new tokens from an array that does not depend on tokens."""
    if jnp.ndim(table) <= axis or table.shape[axis] != read.traced.length:
        return table
    return jax.lax.dynamic_slice_in_dim(table, read.position, read.tokens, axis)


def reshaped(before: tuple[int, ...], after: tuple[int, ...], axis: int) -> int | None:
    """Return an axis's position after a reshape; None if it is split or joined."""
    for place, size in enumerate(after):
        if size == before[axis] and prod(after[:place]) == prod(before[:axis]):
            return place
    return None


def elementwise(read: Read, equation: Equation, *operands: Any) -> Rows:
    """Apply an elementwise primitive."""
    rows = [one for one in operands if isinstance(one, Rows)]
    tokens, others = ({getattr(one, name) for one in rows} - {None} for name in ("tokens", "others"))
    if len(tokens) > 1 or len(others) > 1 or tokens & others:
        raise refused(equation, "with transposed operands")
    axis, seen = next(iter(tokens), None), next(iter(others), None)
    arrays = [
        one if axis is None or jnp.ndim(one) == 0 else rows_of(read, one, axis) for one in map(array_of, operands)
    ]
    return Rows(equation.of(arrays)[0], axis, seen)


def _moved(equation: Equation, rows: Rows, to: Callable[[int], int | None], **params: Any) -> Rows:
    tokens = None if rows.tokens is None else to(rows.tokens)
    others = None if rows.others is None else to(rows.others)
    if tokens is None or (others is None) != (rows.others is None):
        raise refused(equation, "which joins tokens with another axis")
    return Rows(equation.of([rows.array], **params)[0], tokens, others)


def _shape(read: Read, equation: Equation, tokens: int | None) -> tuple[int, ...]:
    shape = list(equation.outputs[0].aval.shape)
    if tokens is not None:
        shape[tokens] = read.tokens
    return tuple(shape)


def _transpose(read: Read, equation: Equation, rows: Rows) -> Rows:
    return _moved(equation, rows, list(equation.params["permutation"]).index)


def _broadcast(read: Read, equation: Equation, rows: Rows, *_: Any) -> Rows:
    dimensions = equation.params["broadcast_dimensions"]
    shape = _shape(read, equation, dimensions[rows.tokens])
    return _moved(equation, rows, lambda axis: dimensions[axis], shape=shape)


def _reshape(read: Read, equation: Equation, rows: Rows, *_: Any) -> Rows:
    before, after = equation.inputs[0].aval.shape, equation.outputs[0].aval.shape
    assert rows.tokens is not None
    shape = _shape(read, equation, reshaped(before, after, rows.tokens))
    return _moved(equation, rows, lambda axis: reshaped(before, after, axis), new_sizes=shape)


def _squeeze(read: Read, equation: Equation, rows: Rows) -> Rows:
    gone = equation.params["dimensions"]
    return _moved(equation, rows, lambda axis: axis - sum(each < axis for each in gone))


def _reduced(read: Read, equation: Equation, rows: Rows) -> Rows:
    gone = equation.params["axes"]
    if rows.tokens in gone:
        raise refused(equation)
    rest = Rows(rows.array, rows.tokens) if rows.others in gone else rows
    return _moved(equation, rest, lambda axis: axis - sum(each < axis for each in gone))


def _slice(read: Read, equation: Equation, rows: Rows) -> Rows:
    params, axis, length = equation.params, rows.tokens, read.traced.length
    assert axis is not None
    starts, limits = list(params["start_indices"]), list(params["limit_indices"])
    steps = params["strides"] or [1] * len(starts)
    if (starts[axis], limits[axis], steps[axis]) == (0, length, 1):
        limits[axis] = read.tokens
        return _moved(equation, rows, lambda axis: axis, limit_indices=tuple(limits))
    if (starts[axis], limits[axis]) == (length - 1, length):  # the last token
        starts[axis], limits[axis] = read.tokens - 1, read.tokens
        last = equation.of([rows.array], start_indices=tuple(starts), limit_indices=tuple(limits))
        return Rows(last[0], None)
    raise refused(equation, "which selects tokens other than the last")


def _split(read: Read, equation: Equation, rows: Rows) -> list[Rows]:
    if equation.params["axis"] in (rows.tokens, rows.others):
        raise refused(equation)
    return [Rows(part, rows.tokens, rows.others) for part in equation.of([rows.array])]


def _unstack(read: Read, equation: Equation, rows: Rows) -> list[Rows]:
    gone, kept = equation.params["axis"], [rows.tokens, rows.others]
    if gone in kept:
        raise refused(equation)
    tokens, others = (None if axis is None else axis - (gone < axis) for axis in kept)
    return [Rows(part, tokens, others) for part in equation.of([rows.array])]


def _along(read: Read, equation: Equation, rows: Rows) -> list[Rows]:
    """Apply a primitive that works along some axes and keeps all."""
    last = len(equation.inputs[0].aval.shape) - 1
    said = [equation.params[name] for name in ("axis", "dimension", "dimensions") if name in equation.params]
    axes = [last] if not said else said[0] if isinstance(said[0], tuple) else said
    if rows.tokens in axes or rows.others in axes:
        raise refused(equation)
    return [Rows(one, rows.tokens, rows.others) for one in equation.of([rows.array])]


def _concatenate(read: Read, equation: Equation, *operands: Any) -> Rows:
    first = next(one for one in operands if isinstance(one, Rows))
    if equation.params["dimension"] in (first.tokens, first.others) or first.tokens is None:
        raise refused(equation)
    arrays = []
    for one in operands:
        if isinstance(one, Rows) and (one.tokens, one.others) != (first.tokens, first.others):
            raise refused(equation, "with transposed operands")
        arrays.append(one.array if isinstance(one, Rows) else rows_of(read, one, first.tokens))
    return Rows(equation.of(arrays)[0], first.tokens, first.others)


def _gather(read: Read, equation: Equation, operand: Any, indices: Any) -> Rows:
    if isinstance(operand, Rows):
        return _last(read, equation, operand, indices)
    offsets = equation.params["dimension_numbers"].offset_dims
    batch = [axis for axis in range(len(equation.outputs[0].aval.shape)) if axis not in offsets]
    return Rows(equation.of([operand, indices.array])[0], batch[indices.tokens])


def _last(read: Read, equation: Equation, rows: Rows, indices: Any) -> Rows:
    """Apply a gather from the rows: only that of the last token, as ``x[:, [-1]]``."""
    is_index = not isinstance(indices, Rows)
    is_index = is_index and equation.params["dimension_numbers"].start_index_map == (rows.tokens,)
    found = read.traced.constant(equation.inputs[1]) if is_index else None
    if found is None or not (np.asarray(found) == read.traced.length - 1).all():
        raise refused(equation, "which selects tokens other than the last")
    return Rows(equation.of([rows.array, jnp.full_like(indices, read.tokens - 1)])[0], None)


MOVES: dict[str, Callable[..., Rows | list[Rows]]] = {
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(REDUCTIONS, _reduced),
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "slice": _slice,
    "split": _split,
    "unstack": _unstack,
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "rev", "sort", "top_k"), _along),
    "concatenate": _concatenate,
    "gather": _gather,
}
"""Name of a primitive → its rule for rows."""
