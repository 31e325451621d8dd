"""0-d tensors with a dim argument, 0 or −1: JAX takes them as arrays of one element."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.translation.ir.expr import code
from port.translation.ir.graph import Operation, Value, each_value, mapped
from port.translation.ir.layout import torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext

_AXES = ("dim", "dims", "axis")


def with_scalars_as_vectors(stage: LoweringContext, operation: Operation) -> Operation | None:
    """Rewrite an operation on 0-d tensors with a dim argument to 1-d tensors of one element; None for others.

    The 1-d operands are assigned here; `restore_scalars` turns the results back into 0-d arrays.
    """
    has_axis = any(operation.arguments.get(name) not in (None, (), []) for name in _AXES)
    numbers = [value for value in each_value(operation.arguments) if value.shape == ()]
    if not has_axis or not numbers:
        return None
    lists = {value: Value(f"{value.name}_list", (1,), value.dtype) for value in numbers}
    arguments = mapped(operation.arguments, lambda value: lists.get(value, value))
    shapes = _shapes(operation.operator, arguments)
    if shapes is None:
        return None
    for value, listed in lists.items():
        stage.give(listed, code("x[None]", x=stage.need(value)))
    results = tuple(
        Value(f"{result.name}_list", shape, result.dtype)
        for result, shape in zip(operation.results, shapes, strict=True)
    )
    stage.read.update(
        listed for result, listed in zip(operation.results, results, strict=True) if stage.is_read(result)
    )
    return replace(operation, arguments=arguments, results=results)


def restore_scalars(stage: LoweringContext, results: tuple[Value, ...], listed: tuple[Value, ...]) -> None:
    """Assign the original results from those of `with_scalars_as_vectors`, with torch's rank."""
    for result, made in zip(results, listed, strict=True):
        if result.rank == made.rank:
            stage.alias(result, made, stage.layout(made))
        else:
            stage.give(result, code("x[0]", x=stage.need(made)), torchs(result.rank))


def _shapes(operator: str, arguments: dict[str, Any]) -> list[tuple[int, ...]] | None:
    """Infer the results' shapes on the meta device; None if torch raises an error."""
    import torch

    library, name, overload = operator.split(".")
    try:
        called = getattr(getattr(getattr(torch.ops, library), name), overload)
        remaining = mapped(arguments, _stand_in)
        positional = [remaining.pop(each.name) for each in called._schema.arguments if not each.kwarg_only]
        made = called(*positional, **remaining)
    except Exception:  # whatever the error, the operation stays unsupported
        return None
    return [tuple(each.shape) for each in (made if isinstance(made, tuple | list) else (made,))]


def _stand_in(value: Value) -> Any:
    import torch

    assert value.shape is not None
    lengths: list[Any] = list(value.shape)
    return torch.empty(lengths, dtype=getattr(torch, value.dtype), device="meta")
