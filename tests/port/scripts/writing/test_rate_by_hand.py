"""Rates that a loop sets in the optimizer's groups: the variable that has them, and what computes it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from port.errors import UsageError
from port.scripts.writing.rate_by_hand import RateByHand, is_set_around, rate_by_hand

SCRIPT = """\
def adjust(optimizer, step, base=0.5):
    lr = base * 0.1 ** (step // 2)
    print(lr)
    for group in optimizer.param_groups:
        group["lr"] = lr

for step in range(4):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * step
    optimizer.step()
"""
IN_FUNCTION = SCRIPT.replace(
    '    for group in optimizer.param_groups:\n        group["lr"] = 0.1 * step\n', "    adjust(optimizer, step + 1)\n"
)


def read(text: str) -> RateByHand:
    tree = ast.parse(text)
    function, loop = tree.body
    assert isinstance(function, ast.FunctionDef) and isinstance(loop, ast.For)
    return rate_by_hand(loop, 0.3, [], [function], text.splitlines())


def said(rate: RateByHand) -> list[str]:
    return [ast.unparse(one) for one in rate.others.values() if one is not None]


def test_one_that_is_computed_where_it_is_set() -> None:
    rate = read(SCRIPT)
    assert said(rate) == ["lr = 0.1 * step"] and not rate.functions
    assert [ast.unparse(one) for one in rate.first] == ["lr = 0.3"]


def test_one_that_is_changed() -> None:
    assert said(read(SCRIPT.replace("= 0.1 * step", "*= 0.9"))) == ["lr = lr * 0.9"]


def test_one_that_has_a_name() -> None:
    rate = read(SCRIPT.replace("= 0.1 * step", "= rate"))
    assert rate.name == "rate" and not said(rate) and not rate.first


def test_one_that_a_function_sets() -> None:
    rate = read(IN_FUNCTION)
    assert said(rate) == ["lr = adjust_rate(0.5, step + 1)"] or said(rate) == ["lr = adjust_rate(step + 1, 0.5)"]
    (text,) = rate.functions
    space: dict[str, Any] = {}
    exec(text, space)
    assert space["adjust_rate"](3, 0.5) == pytest.approx(0.05) and "print" not in text and "optimizer" not in text


REFUSED = {
    "another in each group": (SCRIPT.replace("0.1 * step", '0.1 * group["scale"]'), "the rate depends on group"),
    "in a function, another in each group": (
        IN_FUNCTION.replace('["lr"] = lr', '["lr"] = lr * group["scale"]'),
        "the rate depends on group",
    ),
    "changed in a function": (IN_FUNCTION.replace('["lr"] = lr', '["lr"] *= lr'), "changes the rate in a function"),
    "in no line": (IN_FUNCTION.replace("    adjust(", "    other("), "is set in no line of the loop itself"),
    "twice": (SCRIPT.replace("    optimizer.step()", '    group["lr"] = 2'), "is set at line"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rates_that_are_refused(case: str) -> None:
    text, words = REFUSED[case]
    with pytest.raises(UsageError, match=words):
        read(text)


@pytest.mark.parametrize(
    ("text", "is_set"),
    [(SCRIPT, True), (IN_FUNCTION, True), (IN_FUNCTION.replace("    adjust(", "    other("), False)],
)
def test_whether_a_loop_sets_one(text: str, is_set: bool, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)
    line = 1 + text.splitlines().index("    optimizer.step()")
    assert is_set_around({"file": str(tmp_path / "a.py"), "line": line}) == is_set
