"""The lessons: which there are, in which order, and how each one's two files stand beside each other."""

from __future__ import annotations

import re
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import port.lessons.catalogue
from port.errors import UnknownChoice, UsageError
from port.lessons import READING_ORDER, Kind, SourceText, align, find_lesson, lessons
from port.lessons.outline import flat, outline

NAMES = [lesson.name for lesson in lessons()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for side in ("pytorch", "jax"):
        (tmp_path / side).mkdir()
        for name in ("zebra", "train", "model", "apple", "__init__", "_private"):
            (tmp_path / side / f"{name}.py").write_text(f'"""About {name} in {side}. More of it."""\n')
    (tmp_path / "pytorch" / "alone.py").write_text("")
    (tmp_path / "jax" / "lonely.py").write_text("")
    (tmp_path / "jax" / "notes.md").write_text("")
    return tmp_path


def test_every_lesson_has_its_place_in_the_reading_order():
    assert list(READING_ORDER) == NAMES


def test_the_readme_names_them_in_that_order():
    readme = (Path(lessons()[0].torch).parents[1] / "README.md").read_text("utf-8")
    table = [line for line in readme.splitlines() if line.startswith("| ") and "`" in line]
    named = [name for line in table for name in re.findall(r"`(\w+)`", line.split("|")[2])]
    assert named == list(READING_ORDER)


@pytest.mark.parametrize("name", NAMES)
def test_definitions_with_a_twin_stand_opposite_it(name, whole, parted):
    alignment = align(*find_lesson(name).sources())
    whole(alignment)
    names = [{name for name, _ in flat(outline(s.lines))} for s in (alignment.left, alignment.right)]
    assert len(names[0] & names[1]) >= 2
    assert parted(alignment) == []
    equal = sum(row.kind is Kind.EQUAL for row in alignment.rows)
    print(
        f"{name}: {alignment.share_opposite():.1%} of the lines have one opposite; {equal} rows of "
        f"{len(alignment.rows)} are equal; {len(names[0] & names[1])} definitions and titles have twins, all opposite"
    )
    if find_lesson(name).jax.is_file():  # what `port script` writes has four times as many lines as its original
        assert alignment.share_opposite() > 0.3
    assert alignment.remarks == ()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.thin(5)
def test_a_definition_that_is_moved_in_one_file_of_a_lesson_is_seen(name, whole, parted):
    torch, jax = find_lesson(name).sources()
    parts = [part for part in outline(jax.lines) if part.name in {ours.name for ours in outline(torch.lines)}]
    first, last = parts[0], parts[-1]
    moved = jax.lines[: first.start] + jax.lines[last.start : last.stop] + jax.lines[first.start : last.start]
    alignment = align(torch, SourceText("moved.py", moved + jax.lines[last.stop :]))
    whole(alignment)
    assert parted(alignment) != []


def test_lessons_are_pairs_of_files_in_reading_order(folder):
    found = lessons(folder)
    assert [lesson.name for lesson in found] == ["model", "train", "apple", "zebra"]
    assert found[0].torch == folder / "pytorch" / "model.py"
    assert found[0].jax == folder / "jax" / "model.py"
    assert [source.name for source in found[0].sources()] == [
        f"{folder.name}/pytorch/model.py",
        f"{folder.name}/jax/model.py",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""One sentence, e.g.this. Another."""', "One sentence, e.g.this."),
        ('"""Over two\nlines: torch.optim in short. Alone:\n\n    python"""', "Over two lines: torch.optim in short."),
        ('"""No sentence:\n\nElse."""', "No sentence"),
        ("x = 1", ""),
        ("", ""),
        ("x = 1\nx =", "(does not parse, line 2)"),
    ],
)
def test_a_lesson_is_about_the_first_sentence_of_its_docstring(folder, text, expected):
    (folder / "pytorch" / "model.py").write_text(text)
    assert find_lesson("model", folder).about() == expected


def test_a_hyphen_is_as_good_as_an_underscore():
    assert find_lesson("linear-regression").name == "linear_regression"


@pytest.mark.parametrize(("name", "nearest"), [("trian", "train"), ("modle", "model"), ("linear", "linear_regression")])
def test_of_a_lesson_that_is_not_there_the_nearest_are_named(name, nearest):
    with pytest.raises(UnknownChoice, match=f"unknown lesson '{name}'; there are: {nearest}, "):
        find_lesson(name)


@pytest.mark.parametrize("spec", [None, ModuleSpec("side_by_side", None)])
def test_without_the_lessons_it_is_said_where_they_are(monkeypatch, spec):
    monkeypatch.setattr(port.lessons.catalogue, "find_spec", lambda name: spec)
    with pytest.raises(UsageError, match="side_by_side, which is installed with port"):
        lessons()
