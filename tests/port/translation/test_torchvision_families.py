"""Families of torchvision's models: the kept table of what follows from one member, and some of it anew."""

from __future__ import annotations

import pytest

from .torchvision_families import alone, families, table

SECONDS = 840.0
"""After 900 pytest ends the whole run."""
APART = {
    "squeezenet": "its second version is another program: a string chooses between two branches of the constructor"
}
"""Families of which one member does not follow, and why."""


def test_the_table_is_of_torchvisions_families() -> None:
    known = families()
    for family, row in table().items():
        names = [model.name for model in known[family]]
        assert row["member"] == names[0]
        assert [*row["follow"], *row["not"], *row["left"]] == names[1:]


def test_what_is_in_the_table_follows_or_is_a_known_gap() -> None:
    assert all(row["agrees"] for row in table().values())
    assert {family for family, row in table().items() if row["not"]} <= APART.keys()


@pytest.mark.sweep
@pytest.mark.daily(8)  # each takes minutes
@pytest.mark.parametrize("family", [family for family, row in table().items() if row["follow"]])
def test_one_member_follows_as_the_table_says(family: str) -> None:
    row = alone(family, SECONDS, most=1)
    assert row.get("agrees"), row
    assert row["follow"].keys() == set(list(table()[family]["follow"])[:1]), row
