"""What `port diff --json` prints, against the schema that lies in the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from port.cli import main
from port.lessons import READING_ORDER, find_lesson
from port.pairs.notes import NOTES
from port.pairs.tutorials import OUTDATED
from port.report.diff import schema
from port.report.results import schema as result_schema


def printed(*arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The object that the command prints, valid by the schema; what it did not show is null."""
    capsys.readouterr()
    assert main(["diff", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, schema())
    return {name: value for name, value in found.items() if value is not None}


def test_the_lessons(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys=capsys)
    assert set(found) == {"command", "exit_code", "lessons", "files"}
    assert [lesson["name"] for lesson in found["lessons"]] == list(READING_ORDER)
    assert all(Path(lesson[side]).exists() for lesson in found["lessons"] for side in ("torch", "jax"))


@pytest.mark.parametrize("name", ["train", "whole_script"])
def test_a_lesson_holds_every_line_of_both_sides_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(name, capsys=capsys)["alignment"]
    for side, source in zip(("left", "right"), find_lesson(name).sources(), strict=True):
        assert found[side] == source.name
        lines = [row[side] for row in found["rows"] if row[side] is not None]
        assert [line["text"] for line in lines] == list(source.lines)
        assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    assert (found["account"] is None) == (name == "train")
    for row in found["rows"]:
        left, right = row["left"], row["right"]
        kind = "only left" if right is None else "only right" if left is None else None
        assert row["kind"] == (kind or ("equal" if left["text"] == right["text"] else "changed"))


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    differences = printed("--table", capsys=capsys)["differences"]
    assert [row["id"] for row in differences] == [note.id for note in NOTES]
    tutorials = printed("--tutorials", capsys=capsys)["tutorials"]
    assert [(row["id"], row["fate"]) for row in tutorials] == [(row.id, row.fate) for row in OUTDATED]


@pytest.mark.sweep
def test_the_site_names_its_first_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    file = str(tmp_path / "a.py")
    found = printed(file, file, "--html", str(tmp_path / "site"), capsys=capsys)
    assert found["files"] == [str(tmp_path / "site" / "index.html")]


def test_an_error_is_a_result_as_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "no-such-lesson", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, result_schema())
    assert (found["command"], found["exit_code"]) == ("diff", 2)


def test_the_schema_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert main(["diff", "train", "--json"]) == 0
    right = json.loads(capsys.readouterr().out)
    faults = [{**right, "more": 1}, {**right, "lessons": "train"}, {name: right[name] for name in list(right)[:-1]}]
    for key, value in (("kind", "moved"), ("left", {"number": 0, "text": ""}), ("right", {"number": 1})):
        faults.append(deepcopy(right))
        faults[-1]["alignment"]["rows"][0][key] = value
    for wrong in faults:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema())


def test_characters_that_the_output_cannot_encode_are_escaped() -> None:
    command = [sys.executable, "-m", "port", "diff", "script", "--json"]
    texts = [
        subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": encoding}
        ).stdout
        for encoding in ("ascii", "utf-8")
    ]
    assert rb"\u2192" in texts[0] and "→".encode() in texts[1]
    assert json.loads(texts[0]) == json.loads(texts[1])
