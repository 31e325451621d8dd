"""Names of lengths, equality of formulas, and torch.export's guards."""

from __future__ import annotations

import pytest

from port.translation.ir.graph import Size
from port.translation.ir.symbolic_lengths import evaluated, guard_on, length_names, multiple_of, renamed, same

SHAPES: tuple[tuple[Size, ...], ...] = (("n", "t"), ("n", "t2", 4))


def test_lengths_are_called_by_their_axes() -> None:
    names = length_names([("s77", 3, "s5", "s5"), ("s9", "s5 + 1")])
    assert names == {"s77": "n", "s5": "h", "s9": "n2"}
    assert renamed("2*s77 + s9", names) == "2*n + n2" and renamed("s5 + 1", names) == "h + 1"
    assert renamed(7, names) == 7


def test_axes_that_go_together_have_one_name() -> None:
    names = length_names([("s1", "s2"), ("s3", "s4")], [((0, 0), (1, 0))])
    assert names == {"s1": "n", "s3": "n", "s2": "t", "s4": "t2"}


@pytest.mark.parametrize(
    ("guard", "condition"),
    [
        ("L['tensors'][0].size()[1] <= 64", "t <= 64"),
        ("(L['tensors'][0].size()[1] % 2) == 0", "t % 2 == 0"),
        ("L['tensors'][1].size()[1] != L['tensors'][0].size()[1]", "t2 != t"),
        ("torch.sym_max(1, L['tensors'][0].size()[0]) < 9", "max(1, n) < 9"),
        ("math.ceil(L['tensors'][0].size()[1] / 3) > 2", "-(-(t / 3) // 1) > 2"),
        ("math.trunc(torch.sym_float(L['tensors'][0].size()[1]) / 2) > 3", "int(t / 2) > 3"),
        ("math.floor(L['tensors'][0].size()[1] / 2) == 6", "t / 2 // 1 == 6"),
        ("L['tensors'][1].size()[2] == 4", None),
        ("unknown(L['tensors'][0].size()[0]) == 1", "unsaid(n)"),
        ("unknown(L['tensors'][1].size()[2], L['scale'])", None),
    ],
)
def test_guards_are_conditions_on_names(guard: str, condition: str | None) -> None:
    assert guard_on(guard, SHAPES) == condition


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("((h - 1)//2) + 1", "(h + 1)//2", True),
        ("6*((h//2)) + 6", "6*((h//2) + 1)", True),
        ("h//2", "(h + 1)//2", False),
        ("n*h", "h*n", True),
        ("n", "h", False),
        (7, 7, True),
    ],
)
def test_formulas_that_are_the_same(one: Size, other: Size, alike: bool) -> None:
    assert same(one, other) is alike


def test_products_of_lengths() -> None:
    assert multiple_of("6*h*w", ("h", "w")) == 6
    assert multiple_of("h*w", ("h", "w")) == 1
    assert multiple_of("h*w + 1", ("h", "w")) is None
    assert multiple_of("3*(h//2)", ("h//2",)) == 3
    assert multiple_of("h", ("2",)) is None


def test_a_formula_is_worked_out() -> None:
    assert evaluated("FloorDiv(Max(1, h), 2)", {"h": 9}) == 4
    with pytest.raises(NameError):
        evaluated("h + 1", {})
