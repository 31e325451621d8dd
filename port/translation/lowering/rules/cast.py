"""Copies, casts, and values that pass through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.translation.ir.expr import code
from port.translation.ir.graph import Operation
from port.translation.lowering.rules.broadcast import together

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _same(stage: LoweringContext, operation: Operation) -> None:
    value = operation.arguments.get("self", next(iter(operation.arguments.values())))
    stage.alias(operation.results[0], value, stage.layout(value))


def _cast(stage: LoweringContext, operation: Operation) -> None:
    value, result = operation.arguments["self"], operation.results[0]
    if value.dtype == result.dtype:
        _same(stage, operation)
        return
    expression = code("x.astype(dtype)", x=stage.ref(value), dtype=code(f"jnp.{jax_dtype(result.dtype)}"))
    stage.give(result, expression, stage.layout(value), follows=value)


def _detach(stage: LoweringContext, operation: Operation) -> None:
    value = operation.arguments["self"]
    expression = code("jax.lax.stop_gradient(x)", x=stage.ref(value))
    stage.give(operation.results[0], expression, stage.layout(value), follows=value)


def _sloped(stage: LoweringContext, operation: Operation) -> None:
    """A value whose gradient is given: a node of our own."""
    layout, (y, x, slope), leader = together(stage, [operation.arguments[name] for name in ("y", "x", "slope")])
    follows = leader if layout == stage.layout(leader) else None
    stage.give(operation.results[0], code("F.sloped(y, x, slope)", y=y, x=x, slope=slope), layout, follows=follows)


def _scalar(stage: LoweringContext, operation: Operation) -> None:
    """A tensor made of one number."""
    dtype = code(f"jnp.{jax_dtype(operation.results[0].dtype)}")
    number = stage.ref(operation.arguments["s"])
    stage.give(operation.results[0], code("jnp.asarray(number, dtype)", number=number, dtype=dtype))


def jax_dtype(name: str) -> str:
    """jax.numpy's name of a torch dtype."""
    return {"bool": "bool_"}.get(name, name)


RULES = {
    **dict.fromkeys(
        (
            "aten.clone",
            "aten.contiguous",
            "aten.alias",
            "aten.lift_fresh_copy",
            "aten.lift_fresh",
            "aten.resolve_conj",
            "aten.resolve_neg",
            "aten.positive",
        ),
        _same,
    ),
    "port_translation.sloped": _sloped,
    **dict.fromkeys(("aten._to_copy", "aten.to", "aten.type_as"), _cast),
    "aten.detach": _detach,
    "aten.scalar_tensor": _scalar,
}
