"""Three-valued conditions, and the value of a variable after two branches."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from port.errors import NoPair
from port.translation.frontend.branch_selection import Branches, NoValue, is_unknown


@pytest.fixture
def branches() -> Branches:
    return Branches(torch.nn.Linear(2, 3), numbers=False)


VALUES: list[Any] = [True, False, torch.tensor(True), torch.tensor(False)]


@pytest.mark.parametrize(("one", "other"), [*product(VALUES, repeat=2)])
def test_and_or_not(branches: Branches, one: Any, other: Any) -> None:
    either = branches.any_of(lambda: one, lambda: other)
    both = branches.all_of(lambda: one, lambda: other)
    assert bool(either) == (bool(one) or bool(other)) and bool(both) == (bool(one) and bool(other))
    assert bool(branches.not_(one)) == (not one)
    unknown = [value for value in (one, other) if is_unknown(value)]
    # What Python knows decides wherever it can.
    assert is_unknown(either) == (bool(unknown) and True not in [v for v in (one, other) if not is_unknown(v)])
    assert is_unknown(both) == (bool(unknown) and False not in [v for v in (one, other) if not is_unknown(v)])


def test_or_gives_the_operand_as_in_python(branches: Branches) -> None:
    assert branches.any_of(lambda: None, lambda: 3) == 3
    assert branches.all_of(list, lambda: 3) == []


@pytest.mark.parametrize("holds", [True, False])
def test_what_is_selected(branches: Branches, holds: bool) -> None:
    test = branches.test(torch.tensor([holds]), {})
    assert test.may_hold and test.may_fail
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    assert torch.equal(test.selected("a", x, y), x if holds else y)
    assert test.selected("a", x, x) is x
    assert torch.equal(test.selected("a", (x, None), (y, None))[0], x if holds else y)
    assert float(test.selected("a", 2.0, 0.5)) == (2.0 if holds else 0.5)
    for one, other in product(VALUES, repeat=2):
        assert bool(test.selected("flag", one, other)) == bool(one if holds else other)
    test.end()


def test_what_has_no_one_value_is_refused_where_it_is_used(branches: Branches) -> None:
    test = branches.test(torch.tensor(True), {})
    made = test.selected("y", torch.randn(3), None)
    assert isinstance(made, NoValue)
    for use in (lambda: made[0], lambda: made + 1, lambda: made.shape, lambda: bool(made)):
        with pytest.raises(NoPair, match=r"y is a tensor of \(3,\) in one branch and None in the other"):
            use()
    test.end()


def test_a_branch_that_writes_is_refused(branches: Branches) -> None:
    x = torch.randn(3)
    test = branches.test(torch.tensor(True), {"x": x})
    x += 1
    with pytest.raises(NoPair, match="writes into x"):
        test.end()


def test_a_known_condition_runs_one_branch(branches: Branches) -> None:
    for value, holds in ((1, True), ([], False), (None, False)):
        test = branches.test(value, {})
        assert (test.may_hold, test.may_fail, test.is_unknown) == (holds, not holds, False)
        test.end()


def test_with_numbers_the_branch_that_is_taken_is_kept() -> None:
    test = Branches(torch.nn.Linear(2, 3), numbers=True).test(torch.tensor(False), {})
    x = torch.randn(3)
    assert test.selected("a", x, None) is None
    test.end()
