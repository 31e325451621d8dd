"""Merged iterations: a number's origin is kept if all iterations agree on it."""

from __future__ import annotations

from port.translation.ir.graph import Operation, Value
from port.translation.ir.number import KnownNumber
from port.translation.ir.origin import AttributeOf
from port.translation.passes.loop_rounds import fitted

RATE = AttributeOf("", "rate")


def _rounds(attributes: list[str]) -> list[list[Operation | None]]:
    """``x = (x * rate) / other`` again and again, each round with an attribute of its own."""
    before, rounds = Value("x", (5, 3), "float32"), []
    for number, attribute in enumerate(attributes):
        middle, after = (Value(f"{name}_{number}", (5, 3), "float32") for name in ("m", "x"))
        rates = {("other",): KnownNumber(3, RATE)}
        others = {("other",): KnownNumber(7, AttributeOf("", attribute))}
        steps: list[Operation | None] = [
            Operation("aten.mul.Tensor", {"self": before, "other": 3}, (middle,), False, None, numbers=rates),
            Operation("aten.div.Tensor", {"self": middle, "other": 7}, (after,), False, None, numbers=others),
        ]
        rounds.append(steps)
        before = after
    return rounds


def test_a_number_of_one_origin_in_all_rounds_keeps_it() -> None:
    multiplied, divided = fitted([*_rounds(["first", "first", "first"])], {}).steps
    assert isinstance(multiplied, Operation) and multiplied.numbers == {("other",): KnownNumber(3, RATE)}
    assert isinstance(divided, Operation) and divided.numbers == {("other",): KnownNumber(7, AttributeOf("", "first"))}


def test_one_of_several_origins_has_none() -> None:
    multiplied, divided = fitted([*_rounds(["first", "first", "other"])], {}).steps
    assert isinstance(multiplied, Operation) and multiplied.numbers == {("other",): KnownNumber(3, RATE)}
    assert isinstance(divided, Operation) and divided.arguments["other"] == 7 and not divided.numbers
