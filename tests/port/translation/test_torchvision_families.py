"""Families of torchvision's models: the kept table of what follows from one member, and some of it anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .torchvision_families import TABLE, alone, in_order, several

SINGLE = Path(__file__).with_name("torchvision_table.json")
SECONDS = 840.0
"""After 900 pytest ends the whole run."""
FOLLOWED = [family for family, row in TABLE.rows().items() if row["proved"]]
APART = {
    "densenet": "a class becomes several: its blocks go through modules that they hold by name",
    "deeplabv3": "the backbone is made of a network of which the model holds a part: source cannot say that",
    "fcn": "the same",
    "mvit": "a class becomes several: its blocks' calls are not the same",
    "raft": "its constructor is given a CorrBlock, which source cannot say",
    "swin": "a class becomes several: whether a block shifts depends on an attribute and on the length that it sees",
    "swin3d": "the same",
    "swin_v2": "the same",
    "video_resnet": "one call makes two kinds of convolutions, of classes that derive from torch's",
}
"""Families of which what is written for one member is not what is written for the others, and why."""


@pytest.mark.parametrize("row", TABLE.rows().values(), ids=list(TABLE.rows()))
def test_the_table_tells_of_each_member_once(row: Any) -> None:
    first, *others = [model.name for model in in_order(row["family"])]
    assert row["member"] == first
    assert sorted([*row["proved"], *row["constructed"], *row["not"], *row["left"]]) == sorted(others)


def test_what_does_not_follow_is_a_known_gap() -> None:
    rows = TABLE.rows()
    assert rows.keys() <= {*several()}
    whole = {family for family, row in rows.items() if row["proved"] and not row["not"] and not row["left"]}
    assert {family for family, row in rows.items() if row["not"]} <= APART.keys() <= {*several()} - whole


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
@pytest.mark.daily(max(1, len(FOLLOWED)))  # each takes minutes: one a day
@pytest.mark.parametrize("family", FOLLOWED)
def test_one_member_follows_as_the_table_says(family: str) -> None:
    row = alone(family, SECONDS, most=1)
    assert row.get("proved", {}).keys() == TABLE.rows()[family]["proved"].keys(), row
