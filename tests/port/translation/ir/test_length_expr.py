"""Emitted lengths evaluate to the same numbers as torch's formulas."""

from __future__ import annotations

import pytest

from port.translation.ir import syntax
from port.translation.ir.graph import Size
from port.translation.ir.length_expr import length


def read(symbol: str) -> syntax.Expr | None:
    """Two arrays show three symbols, and one whole formula."""
    shown = {"s0": "x.shape[0]", "s1": "x.shape[2]", "s2": "y.shape[1]", "(s0//2)": "z.shape[0]"}
    return syntax.parsed(shown[symbol]) if symbol in shown else None


@pytest.mark.parametrize(
    ("formula", "source"),
    [
        (7, "7"),
        (-1, "-1"),
        ("s0", "x.shape[0]"),
        ("2*s0 + s1", "2 * x.shape[0] + x.shape[2]"),
        ("s1**2", "x.shape[2] ** 2"),
        ("(s0//2)", "z.shape[0]"),
        ("(s1//2)", "x.shape[2] // 2"),
        ("FloorDiv(s1 - 1, 2) + 1", "(x.shape[2] - 1) // 2 + 1"),
        ("CleanDiv(s1, 4)", "x.shape[2] // 4"),
        ("PythonMod(s0, 3)", "x.shape[0] % 3"),
        ("Mod(s0, s1)", "x.shape[0] % x.shape[2]"),
        ("IntTrueDiv(s0, 2)", "x.shape[0] / 2"),
        ("PowByNatural(s1, 2)", "x.shape[2] ** 2"),
        ("TruncToInt(FloatTrueDiv(s0, 2))", "int(x.shape[0] / 2)"),
        ("Max(1, s0)", "max(1, x.shape[0])"),
        ("Min(s2, s0)", "min(y.shape[1], x.shape[0])"),
        ("Identity(s0)", "x.shape[0]"),
    ],
)
def test_a_formula(formula: Size, source: str) -> None:
    made = length(formula, read)
    assert made is not None and syntax.source(made) == source


@pytest.mark.parametrize("formula", ["s9", "s0 + s9", "CeilToInt(s0)", "Unknown(s0)", "s0 +"])
def test_what_cannot_be_read(formula: str) -> None:
    assert length(formula, read) is None


def test_a_product_keeps_its_brackets() -> None:
    made = length("s0*(s1 + 3)//FloorDiv(s2, 2)", read)
    assert made is not None
    source = syntax.source(made)
    for s0, s1, s2 in ((2, 5, 4), (7, 1, 3), (3, 3, 9)):
        x, y = type("Array", (), {"shape": (s0, 0, s1)}), type("Array", (), {"shape": (0, s2)})
        assert eval(source, {"x": x, "y": y}) == s0 * (s1 + 3) // (s2 // 2)
