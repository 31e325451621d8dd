"""Rewrite operators into others that a pair or a rule covers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.errors import NoPair
from port.translation.ir.graph import Operation, Value

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext

Rewrite = Callable[["LoweringContext", Operation], Operation]

_COPY = "aten.clone.default"


def _identity(operation: Operation, value: Value) -> Operation:
    """Return an operation whose result is an existing value."""
    return replace(operation, operator=_COPY, arguments={"self": value})


def _with(operation: Operation, operator: str | None = None, **arguments: Any) -> Operation:
    return replace(operation, operator=operator or operation.operator, arguments={**operation.arguments, **arguments})


def _squeeze(stage: LoweringContext, operation: Operation) -> Operation:
    """Name the axes to squeeze: only axes of length 1 are removed."""
    value: Value = operation.arguments["self"]
    dims = operation.arguments.get("dim", range(value.rank))
    dims = [dims] if isinstance(dims, int) else dims
    gone = sorted({dim % value.rank for dim in dims if value.rank and value.shape[dim] == 1})  # type: ignore[index]
    if not gone:
        return _identity(operation, value)
    operator, dim = ("aten.squeeze.dim", gone[0]) if len(gone) == 1 else ("aten.squeeze.dims", gone)
    return replace(operation, operator=operator, arguments={"self": value, "dim": dim})


def _expand(stage: LoweringContext, operation: Operation) -> Operation:
    """Replace −1 by the length that stays."""
    value, sizes = operation.arguments["self"], list(operation.arguments["size"])
    lacking = len(sizes) - value.rank
    explicit = [
        _length(stage, value.shape[place - lacking], value) if size == -1 else size for place, size in enumerate(sizes)
    ]
    return _with(operation, size=explicit)


def _of_two(stage: LoweringContext, operation: Operation) -> Operation:
    """Drop an ``expand`` to the other operand's shape: JAX broadcasts as well."""
    arguments = operation.arguments
    one, other = arguments["self"], arguments["other"]
    made = stage.producers.get(other) if isinstance(other, Value) else None
    if made is None or made.operator != "aten.expand.default" or not isinstance(one, Value) or one.shape != other.shape:
        return operation
    inside: Value = made.arguments["self"]
    return _with(operation, other=inside) if inside.rank == other.rank and inside.dtype == one.dtype else operation


def _length(stage: LoweringContext, length: int | str, of: Value) -> int | Value:
    """Return a length as an argument: a number, or a new value for a symbolic length."""
    if isinstance(length, int):
        return length
    made = Value(f"{of.name}_{length}", None, "size", length)
    stage.values[made.name] = made
    return made


def _cat(stage: LoweringContext, operation: Operation) -> Operation:
    """Leave out empty 1-d tensors among tensors of higher rank, as torch does."""
    rank = operation.results[0].rank
    tensors = [tensor for tensor in operation.arguments["tensors"] if tensor.shape != (0,) or rank == 1]
    return _with(operation, tensors=tensors)


# %% Parts


def _slice(stage: LoweringContext, operation: Operation) -> Operation:
    part = _part(operation)
    whole = all(end is None for end in part.values())
    return _identity(operation, operation.arguments["self"]) if whole else _with(operation, **part)


def _slice_scatter(stage: LoweringContext, operation: Operation) -> Operation:
    part, source = _part(operation), operation.arguments["src"]
    whole = all(end is None for end in part.values())
    return _identity(operation, source) if whole else _with(operation, src=_as_scalar(stage, source), **part)


def _select_scatter(stage: LoweringContext, operation: Operation) -> Operation:
    return _with(operation, src=_as_scalar(stage, operation.arguments["src"]))


def _diagonal_scatter(stage: LoweringContext, operation: Operation) -> Operation:
    """Set a matrix's main diagonal to a scalar, if the source is one; other diagonals keep the source's shape."""
    is_matrix = operation.arguments["self"].rank == 2 and operation.arguments["offset"] == 0
    source = operation.arguments["src"]
    return _with(operation, src=_as_scalar(stage, source) if is_matrix else source)


def _part(operation: Operation) -> dict[str, Any]:
    """Return a slice's start, end and step; None for the axis's own."""
    value: Value = operation.arguments["self"]
    start, end, step = (operation.arguments[name] for name in ("start", "end", "step"))
    length = value.shape[operation.arguments["dim"] % value.rank]  # type: ignore[index]
    if isinstance(end, int) and (end >= sys.maxsize or (isinstance(length, int) and end >= length)):
        end = None
    if isinstance(end, Value) and end.length == length:
        end = None
    start = None if isinstance(start, int) and start == 0 else start
    return {"start": start, "end": end, "step": None if step == 1 else step}


def _as_scalar(stage: LoweringContext, source: Value) -> Any:
    """Return the scalar that fills the source, if it is filled with one; else the source."""
    made = stage.producers.get(source)
    if made is None or made.operator not in ("aten.fill.Scalar", "aten.fill.Tensor", "aten.copy.default"):
        return source
    number = made.arguments["src" if made.operator == "aten.copy.default" else "value"]
    if isinstance(number, Value):
        number = _unstretched(stage, number)
    if isinstance(number, Value) and number.rank:
        return source
    plain = _plain(stage, number)
    return source if isinstance(plain, Value) and plain is not made.arguments.get("value") else plain


def _unstretched(stage: LoweringContext, value: Value) -> Value:
    """Undo expands and views of a one-element tensor."""
    made = stage.producers.get(value)
    if made is not None and made.operator in ("aten.expand.default", "aten.view.default"):
        inside: Value = made.arguments["self"]
        if all(length == 1 for length in inside.shape or ()):
            return _unstretched(stage, inside)
    return value


def _fill(stage: LoweringContext, operation: Operation) -> Operation:
    """Fill with a Python scalar, so that the array's dtype decides, not the scalar's."""
    return _with(operation, value=_plain(stage, operation.arguments["value"]))


def _plain(stage: LoweringContext, number: Any) -> Any:
    """Return a constant one-element tensor as a Python scalar."""
    if not isinstance(number, Value):
        return number
    made = stage.producers.get(number)
    if made is not None and made.operator == "aten.scalar_tensor.default":
        # On the meta device torch creates a tensor from a number in this way.
        filled = made.arguments["s"]
        is_whole = isinstance(filled, bool | int) and number.dtype.startswith("float")
        return float(filled) if is_whole else filled
    constant = stage.constant(number)
    return number if constant is None else constant.item()


def _indexed(stage: LoweringContext, operation: Operation) -> Operation:
    """Write whole axes among indices as slices.

    Raises:
        NoPair: a mask makes the result's shape depend on values.
    """
    indices = list(operation.arguments["indices"])
    while indices and indices[-1] is None:
        indices.pop()
    mask = any(index is not None and index.dtype == "bool" for index in indices)
    if mask and operation.operator.startswith("aten.index."):
        raise NoPair("the number of elements that a mask selects depends on its values; use torch.where")
    if mask and len(indices) > 1:
        raise NoPair("a mask among other indices: the number of elements that it selects depends on its values")
    if mask and operation.arguments["values"].shape not in ((), (1,)):
        raise NoPair("assigning an array through a mask needs as many values as the mask has Trues; use torch.where")
    return _with(operation, indices=[slice(None) if index is None else index for index in indices])


def _memory(stage: LoweringContext, operation: Operation) -> Operation:
    """Rewrite ``empty`` to ``zeros``."""
    base = operation.operator.rpartition(".")[0].removesuffix("_strided")
    arguments = {name: value for name, value in operation.arguments.items() if name != "stride"}
    return replace(operation, operator=f"{base.replace('empty', 'zeros')}.default", arguments=arguments)


# %% Layers, norms


def _native_dropout(stage: LoweringContext, operation: Operation) -> Operation:
    result, mask = operation.results
    if operation.arguments["train"] and stage.is_read(mask):
        raise NoPair("the mask that a dropout drew is read")
    return replace(operation, operator="aten.dropout.default", results=(result,), several=False)


def _with_running_statistics(stage: LoweringContext, operation: Operation) -> Operation:
    """Normalise the input by running statistics, as in evaluation."""
    result, *batch = operation.results
    if any(map(stage.is_read, batch)):
        raise NoPair("the batch's statistics are read, and evaluation computes none")
    return normalised(operation, result, training=False)


def normalised(operation: Operation, result: Value, *, training: bool) -> Operation:
    """Return the operation that only normalises, without updating the running statistics."""
    names = ("input", "weight", "bias", "eps")
    arguments = {name: operation.arguments[name] for name in names}
    arguments |= {name: None if training else operation.arguments[name] for name in ("running_mean", "running_var")}
    if training:
        arguments["training"] = True
    return replace(operation, operator="aten.batch_norm.default", arguments=arguments, results=(result,), several=False)


REWRITES: dict[str, Rewrite] = {
    "aten.squeeze": _squeeze,
    "aten.expand": _expand,
    "aten.div": _of_two,
    "aten.mul": _of_two,
    "aten.cat": _cat,
    "aten.slice": _slice,
    "aten.slice_scatter": _slice_scatter,
    "aten.select_scatter": _select_scatter,
    "aten.diagonal_scatter": _diagonal_scatter,
    "aten.fill": _fill,
    "aten.index": _indexed,
    "aten.index_put": _indexed,
    "aten.native_dropout": _native_dropout,
    "aten.empty": _memory,
    "aten.empty_like": _memory,
    "aten.new_empty": _memory,
    "aten.empty_strided": _memory,
    "aten._native_batch_norm_legit_no_training": _with_running_statistics,
}
"""Operator name → its rewrite. A rewrite emits no expression."""
