"""Padding, which torch is told from the last axis back: its widths follow the axes to wherever the array has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.translation.ir.expr import code
from port.translation.ir.graph import Operation, Value
from port.translation.ir.layout import Layout
from port.translation.lowering.rules.from_pair import give, pair_of, written

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _pad(stage: LoweringContext, operation: Operation) -> None:
    pair, variables = pair_of(stage, operation)
    value, widths = variables["input"], list(variables["pad"])
    layout = stage.layout(value)
    if layout.folded is not None and layout.folded.axis >= layout.rank - len(widths) // 2:
        layout = replace(layout, folded=None)
    variables["pad"] = in_order(widths, layout)
    if any(isinstance(width, Value) for width in widths) and operation.arguments.get("mode", "constant") == "constant":
        _by_lengths(stage, operation, variables["pad"], layout)
        return
    ready = {name: written(stage, variable) for name, variable in variables.items() if name != "input"}
    ready["input"] = stage.need(value, layout)
    follows = value if layout == stage.layout(value) else None
    give(stage, operation, pair.jax, ready, [layout], follows)


def _by_lengths(stage: LoweringContext, operation: Operation, widths: list[Any], layout: Layout) -> None:
    """Padding by lengths that are free: they may be negative, which crops, and which only `lax.pad` takes."""
    value, number = operation.arguments["self"], operation.arguments.get("value")
    ends = [(low, high, 0) for low, high in zip(widths[::2], widths[1::2], strict=True)]
    ends += [(0, 0, 0)] * (layout.rank - len(ends))
    expression = code(
        "lax.pad(x, jnp.asarray(number, x.dtype), ends)",
        x=stage.need(value, layout),
        number=0 if number is None else stage.ref(number),
        ends=ends[::-1],
    )
    stage.give(operation.results[0], expression, layout, follows=value if layout == stage.layout(value) else None)


def in_order(widths: list[Any], layout: Layout) -> list[Any]:
    """Widths for an array's axes, as torch would be told them: low and high of the last axis, of the one before, …"""
    of_dim = {layout.rank - 1 - place: widths[2 * place : 2 * place + 2] for place in range(len(widths) // 2)}
    pairs = [of_dim.get(dim, [0, 0]) for dim in layout.order]
    while pairs and pairs[0] == [0, 0]:
        del pairs[0]
    return [width for pair in reversed(pairs) for width in pair]


RULES = dict.fromkeys(("aten.pad", "aten.constant_pad_nd"), _pad)
