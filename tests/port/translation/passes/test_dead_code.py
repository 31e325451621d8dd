from __future__ import annotations

from port.translation.ir.graph import UNREAD_DRAW, Operation, Step, Value
from port.translation.ir.module_calls import ScopeExit
from port.translation.passes.dead_code import is_unread_draw, without_dead_code

A, B, C, D = (Value(name, (2, 3), "float64") for name in "abcd")


def operation(operator: str, result: Value, *operands: Value) -> Operation:
    return Operation(operator, {str(k): value for k, value in enumerate(operands)}, (result,), False, None)


def test_what_nobody_reads_is_left_out_with_what_it_alone_reads() -> None:
    steps: list[Step] = [operation("aten.relu.default", B, A), operation("aten.abs.default", C, B)]
    assert without_dead_code([*steps, ScopeExit("", 0, A)], set()) == [ScopeExit("", 0, A)]
    assert without_dead_code(steps, {C}) == steps
    assert without_dead_code(steps, {B}) == steps[:1]


def test_of_what_draws_it_is_remembered_that_it_does() -> None:
    drawn, twice = operation("aten.rand_like.default", B, A), operation("aten.mul.Tensor", C, B)
    kept = without_dead_code([drawn, twice, operation("aten.abs.default", D, A)], {D})
    assert [step.operator for step in kept if isinstance(step, Operation)] == [UNREAD_DRAW, "aten.abs.default"]
    assert is_unread_draw(kept[0]) and not is_unread_draw(drawn)
    assert without_dead_code(kept, {D}) == kept, "once more"
    assert without_dead_code([drawn, twice], {C}) == [drawn, twice]
