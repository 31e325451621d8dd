"""Families of torchvision's models: the kept table of what follows from one member, and some of it anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .torchvision_families import TABLE, alone, count, families, in_order, is_whole

SINGLE = Path(__file__).with_name("torchvision_table.json")
SECONDS = 840.0
"""After 900 pytest ends the whole run."""
FOLLOWED = [family for family, row in TABLE.rows().items() if row["proved"]]
AGAIN = [
    family
    for family in FOLLOWED
    if sum(TABLE.rows()[family]["seconds"][name] for name in TABLE.rows()[family]["proved"]) < 300
]
"""Those that take minutes; the others are run again by the command alone."""
APART = {
    "deeplabv3": "the backbone goes through other modules in other members, and what it does is written out",
    "mvit": "a class becomes several: its blocks' calls are not the same",
    "raft": "what it does differs with what its constructor is given",
}
"""Families of which what is written for one member is not what is written for the others, and why."""
WAITING: dict[str, str] = {}
"""Families that could be whole, and are not shown to be."""


@pytest.mark.parametrize("row", TABLE.rows().values(), ids=list(TABLE.rows()))
def test_the_table_tells_of_each_member_once(row: Any) -> None:
    first, *others = [model.name for model in in_order(row["family"])]
    assert row["member"] == first
    assert sorted([*row["proved"], *row["constructed"], *row["not"], *row["left"]]) == sorted(others or [first])


def test_what_does_not_follow_is_a_known_gap() -> None:
    rows = TABLE.rows()
    assert rows.keys() <= families().keys()
    whole = {family for family, row in rows.items() if is_whole(row)}
    assert not {*APART, *WAITING} & whole
    assert {*families()} == {*whole, *APART, *WAITING}
    assert count() == f"{len(whole)} of 34 families whole"


def test_a_family_is_whole_where_one_member_was_run_and_all_follow() -> None:
    row = {"proved": {"b": {}}, "not": {}, "left": [], "constructed": ["c"]}
    assert is_whole(row)
    for other in ({"proved": {}}, {"not": {"c": "the source is another"}}, {"left": ["c"]}):
        assert not is_whole(row | other)


def test_the_first_of_each_is_proved_by_itself() -> None:
    by_itself = {row["name"]: row for row in json.loads(SINGLE.read_text())}
    assert all(by_itself[row["member"]]["agrees"] for row in TABLE.rows().values())


@pytest.mark.parametrize("family", FOLLOWED)
def test_what_was_run_agrees(family: str) -> None:
    for rows in TABLE.rows()[family]["proved"].values():
        modes = [f"{what} in {mode}" for what in ("outputs", "gradients") for mode in ("evaluation", "training")]
        assert {*modes} <= rows.keys()
        assert {what: far for what, far in rows.items() if far > (1e-9 if what.startswith("outputs") else 1e-7)} == {}


@pytest.mark.sweep
@pytest.mark.daily(max(1, len(AGAIN)))  # one a day
@pytest.mark.parametrize("family", AGAIN)
def test_one_member_follows_as_the_table_says(family: str) -> None:
    row = alone(family, SECONDS, most=1)
    assert row.get("proved", {}).keys() == TABLE.rows()[family]["proved"].keys(), row
