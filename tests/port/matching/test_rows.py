"""The table: what is sure in torch's order, what is open last, with what it could be."""

from __future__ import annotations

from port.mapping.found import Found
from port.matching.options import Option
from port.matching.problem import problem_of
from port.matching.rows import rows_of
from port.matching.state import Decision, State

from .chains import guide, unit

NEVER = (lambda one, other: False, lambda one, other: False)
TORCH = [unit("a", weight=(3, 2)), unit("b", weight=(3, 2)), unit("c", weight=(7, 2))]
FLAX = [unit("x", "own", kernel=(2, 3)), unit("y", "own", kernel=(2, 3)), unit("z", "own", kernel=(2, 9))]
PROBLEM = problem_of(TORCH, FLAX, guide("flax", *FLAX), NEVER, {})
GUIDES = guide("torch", *TORCH), guide("flax", *FLAX)


def state(**twins: str) -> State:
    made = {}
    for name, twin in twins.items():
        (flax,) = ((one,) for one in FLAX if one.path == name)
        (torch,) = ((one,) for one in TORCH if one.path == twin)
        made[flax] = Decision(Option(torch, flax, (), note="turned"), "order")
    return State(made)


def test_what_is_sure_is_in_torchs_order_and_what_is_left_is_open() -> None:
    rows = rows_of(PROBLEM, state(x="b", y="a"), (), [], {}, {}, *GUIDES)
    assert [(row.torch, row.flax, row.by) for row in rows] == [
        (("a.weight",), ("y.kernel",), "order"),
        (("b.weight",), ("x.kernel",), "order"),
        ((), ("z.kernel",), "open"),
        (("c.weight",), (), "open"),
    ]
    assert "shape (2, 9)" in rows[2].note and "shape (7, 2)" in rows[3].note


def test_what_several_could_be_names_them() -> None:
    rows = rows_of(PROBLEM, state(x="b"), (), [], {}, {}, *GUIDES)
    (row,) = (row for row in rows if row.flax == ("y.kernel",))
    assert row.by == "open" and [candidate.rename for candidate in row.candidates] == [r"^a\b=y.kernel"]


def test_what_is_undecided_or_could_be_moved_otherwise_is_open() -> None:
    found = state(x="b", y="a")
    (x, first), (y, second) = found.decisions.items()
    rows = rows_of(
        PROBLEM, found, (), [], {x: [first.option.torch, second.option.torch]}, {y: [second.option]}, *GUIDES
    )
    both, ways = (row for row in rows if row.by == "open" and row.candidates)
    assert both.flax == ("x.kernel",) and [candidate.torch for candidate in both.candidates] == [
        ("b.weight",),
        ("a.weight",),
    ]
    assert ways.flax == ("y.kernel",) and [candidate.how for candidate in ways.candidates] == ["turned"]


def test_a_constant_needs_no_twin() -> None:
    aside = [Found(("c.weight",), ("c.weight",), (), "torch_only", True)]
    rows = rows_of(PROBLEM, state(x="b", y="a"), (), aside, {}, {}, *GUIDES)
    assert [row.torch for row in rows if row.by == "no twin needed"] == [("c.weight",)]
    assert not any(row.by == "open" and row.torch for row in rows)


def test_what_takes_no_part_needs_no_twin() -> None:
    aside = [Found(("c.weight",), ("c.weight",), (), "torch_only", True)]
    idle = frozenset({"c.weight"}), frozenset({"z.kernel"}), frozenset()
    rows = rows_of(PROBLEM, state(x="b", y="a"), (), aside, {}, {}, *GUIDES, idle)
    assert not any(row.by == "open" for row in rows)
    ours, theirs = (row for row in reversed(rows) if row.by == "no twin needed")
    assert (theirs.torch, theirs.flax, ours.torch, ours.flax) == (("c.weight",), (), (), ("z.kernel",))
    assert theirs.note == "does not affect what the model computes with these inputs, kept aside for the way back"
    assert ours.note == "does not affect what the model computes with these inputs, and keeps its value"
