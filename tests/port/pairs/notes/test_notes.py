"""The notes as a whole: every id that is cited is there, and every test that is named."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from port.errors import UsageError
from port.pairs.notes import NOTES, Note, note

ROOT = Path(__file__).parents[4]
FAMILIES = "WGODAJP"
CITED = re.compile(rf"(?<![A-Za-z0-9])[{FAMILIES}][0-9]{{1,3}}(?![A-Za-z0-9])")  # in names of tests too: test_W12_…
IDS = {each.id for each in NOTES}


@cache
def names_in(file: str) -> frozenset[str]:
    """``test_…`` and ``Test…::test_…`` of a test file; none of one that is not there."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


def missing_tests(notes: tuple[Note, ...]) -> list[str]:
    return [
        name
        for each in notes
        for name in each.tests
        if name.partition("::")[2] not in names_in(name.partition("::")[0])
    ]


def unknown_ids(text: str) -> set[str]:
    return set(CITED.findall(text)) - IDS


def test_ids_are_unique_and_in_order() -> None:
    assert len(IDS) == len(NOTES)
    families = [(family, list(notes)) for family, notes in groupby(NOTES, key=lambda each: each.id[0])]
    assert "".join(family for family, _ in families) == FAMILIES
    for family, notes in families:
        assert [each.id for each in notes] == [f"{family}{number}" for number in range(1, len(notes) + 1)]


@pytest.mark.parametrize("each", NOTES, ids=lambda each: each.id)
def test_a_note_is_complete(each: Note) -> None:
    for sentence in (each.torch, each.jax, each.remedy):
        assert sentence == sentence.strip()
        assert sentence.endswith(".")
    assert each.title == each.title.strip()
    assert each.title
    assert not each.title.endswith(".")
    assert bool(each.tests) != bool(each.untested), "either tests, or the reason why there are none"
    assert not each.untested or each.untested.endswith(".")
    assert len(set(each.tests)) == len(each.tests)


@pytest.mark.parametrize("each", NOTES, ids=lambda each: each.id)
def test_a_note_names_its_causes_or_says_why_there_are_none(each: Note) -> None:
    assert bool(each.causes) != bool(each.outside)
    assert not each.outside or each.outside.endswith(".")
    assert len(set(each.causes)) == len(each.causes)


def test_titles_are_unique() -> None:
    assert len({each.title for each in NOTES}) == len(NOTES)


def test_every_test_that_is_named_is_there() -> None:
    assert missing_tests(NOTES) == []


@pytest.mark.parametrize(
    "planted",
    [
        "tests/port/pairs/notes/test_notes.py::test_that_nobody_wrote",
        "tests/port/pairs/notes/test_nothing.py::test_titles_are_unique",
        "tests/port/pairs/notes/test_notes.py",
        "tests/port/pairs/notes/test_notes.py::missing_tests",
        "tests/side_by_side/test_checkpoint.py::test_torchs_own_load_changes_dtypes",  # without its class
    ],
)
def test_one_that_is_not_there_is_seen(planted: str) -> None:
    there = "tests/port/pairs/notes/test_notes.py::test_titles_are_unique"
    assert missing_tests((replace(NOTES[0], tests=(there, planted)),)) == [planted]


def test_every_id_that_is_cited_is_there() -> None:
    cited = set()
    for folder in ("port", "side_by_side", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != Path(__file__):
                text = path.read_text("utf-8")
                assert unknown_ids(text) == set(), path
                cited |= set(CITED.findall(text)) if "notes" not in path.parts else set()
    assert len(cited) > 40  # they were looked for


def test_one_that_is_cited_and_is_not_there_is_seen() -> None:
    assert unknown_ids("As W1 says, and (W99); D5's other side, test_G98_it; not W12b, XW98 nor W1121.") == {
        "W99",
        "G98",
    }


def test_notes_cite_notes_of_their_own_table() -> None:
    for each in NOTES:
        assert unknown_ids(" ".join((each.torch, each.jax, each.remedy, each.untested))) == set()


def test_a_note_is_found_by_its_id() -> None:
    assert [note(each.id) for each in NOTES] == list(NOTES)


@pytest.mark.parametrize(("given", "nearest"), [("W99", "W9"), ("w12", "W12"), ("G", "G1"), ("", "W1")])
def test_an_id_that_is_none_is_told_with_the_nearest(given: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=rf"there is no note '{given}'; the nearest are .*\b{nearest}\b"):
        note(given)


def test_no_framework_is_imported() -> None:
    code = "import sys, port.pairs.notes; print(*{'torch', 'jax', 'flax', 'optax'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
