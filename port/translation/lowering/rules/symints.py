"""Arithmetic on symbolic dimensions: each result is a formula of symbols, emitted where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.translation.ir.graph import Operation

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext

_ARITHMETIC = (
    *("add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "neg", "eq", "ne", "lt", "le", "gt", "ge"),
    *("sym_max", "sym_min", "sym_float", "sym_int", "sym_sum", "trunc", "round", "math.floor", "math.ceil"),
)


def _record_value(stage: LoweringContext, operation: Operation) -> None:
    for result in operation.results:
        stage.values[result.name] = result


RULES = dict.fromkeys(("aten.sym_size", "aten.sym_numel", *_ARITHMETIC), _record_value)
