"""Repetitions of steps: where they begin, the length of an iteration, and what interrupts them."""

from __future__ import annotations

from port.translation.ir.graph import Operation, Step, Value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.source_location import SourceLocation
from port.translation.passes.repeats import Repeat, Repeats


def steps(text: str) -> list[Step]:
    """A step a letter, of equal letters the same kind; brackets are a module's call."""
    made: list[Step] = []
    for number, letter in enumerate(text):
        if letter == "(":
            made.append(ScopeEnter("cell", number, None, {}))
        elif letter == ")":
            made.append(ScopeExit("cell", number, None))
        else:
            result = Value(f"{letter}{number}", (2, 3), "float32")
            line = SourceLocation("model.py", ord(letter))
            made.append(Operation(f"aten.{letter}.default", {}, (result,), False, line))
    return made


def first(text: str, start: int = 0, once: frozenset[int] = frozenset()) -> Repeat | None:
    return next(iter(Repeats(steps(text), set(once)).at(start)), None)


def test_the_shortest_rounds_that_go_furthest() -> None:
    assert first("abababab") == Repeat(0, 2, 4)
    assert first("aaaabaaaab") == Repeat(0, 1, 4)
    assert first("aabaabaabaab") == Repeat(0, 3, 4)
    assert first("xababababy", 1) == Repeat(1, 2, 4)


def test_too_few_rounds() -> None:
    assert first("ababab") is None
    assert first("abcd") is None


def test_what_the_last_round_lacks() -> None:
    assert first("abcabcabcac") == Repeat(0, 3, 3, (0, 2))
    assert first("abcabcabcx") is None


def test_calls_are_whole() -> None:
    assert first("(ab)(ab)(ab)(ab)") == Repeat(0, 4, 4)
    assert first("(ab)(ab)(ab)(ab)(ab)", 1) is None


def test_what_must_stay_is_in_no_round() -> None:
    assert first("abababab", once=frozenset({3})) is None


def test_the_same_operator_in_another_line_is_another() -> None:
    text = steps("aaaa")
    last = text[-1]
    assert isinstance(last, Operation)
    text[-1] = Operation(last.operator, {}, last.results, False, SourceLocation("model.py", 1))
    assert not Repeats(text, set()).at(0)
