"""No operator has both a pair and a rule."""

from __future__ import annotations

from collections.abc import Iterable

from port.pairs.ops import OPERATORS, OperatorPair
from port.pairs.ops.aliases import meaning_of
from port.pairs.ops.operator_pair import elementwise
from port.translation.lowering.rules import REWRITES, RULES

PAIRED = {pair.aten for pair in OPERATORS if pair.aten}


def in_both(rules: Iterable[str], pairs: Iterable[OperatorPair]) -> set[str]:
    """The operators that a table of rules and one of pairs both speak of, under whatever name and overload."""
    paired = {pair.aten for pair in pairs}

    def operators(name: str) -> set[str]:
        base = ".".join(name.split(".")[:2])
        return {base, meaning_of(base)}

    return set().union(*map(operators, rules)) & paired


def test_no_operator_stands_in_two() -> None:
    assert in_both(RULES, OPERATORS) == set()


def test_one_that_stands_in_two_is_seen() -> None:
    assert in_both([*RULES, "aten.sin.default"], OPERATORS) == {"aten.sin"}
    assert in_both([*RULES, "aten.swapdims"], OPERATORS) == {"aten.transpose"}
    assert in_both(RULES, [*OPERATORS, elementwise("linalg_eigh", "input")]) == {"aten.linalg_eigh"}


def test_what_is_rewritten_has_no_rule() -> None:
    """A rewrite gives another operator, or the same with other arguments: its pair says what is written."""
    assert {name for name in REWRITES if name in RULES} == set()
