"""port.errors: what an unknown choice lists."""

from __future__ import annotations

from port.errors import UnknownChoice


def test_few_choices_are_all_listed_nearest_first() -> None:
    choices = [f"choice{number}" for number in range(UnknownChoice.FEW)]
    said = str(UnknownChoice("option", "choice7", choices))
    assert said.startswith("unknown option 'choice7'; there are: choice7, ")
    assert all(choice in said for choice in choices) and "more" not in said


def test_of_many_choices_the_nearest_are_listed_and_the_others_counted() -> None:
    choices = [f"other{number}" for number in range(4000)] + ["NoSuchModel2"]
    said = str(UnknownChoice("class", "NoSuchModel", choices))
    assert said.startswith("unknown class 'NoSuchModel'; there are: NoSuchModel2, ")
    assert said.endswith(" and 3996 more") and len(said) < 200
