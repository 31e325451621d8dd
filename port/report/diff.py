"""What `port diff` shows, as data for programs; `diff.schema.json` documents each field."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from port.lessons import AlignedRow, Alignment, Lesson
from port.pairs.notes import Note
from port.pairs.tutorials import Outdated


def schema() -> Any:
    """Return the JSON schema of `port diff --json`."""
    return json.loads((resources("port.report") / "diff.schema.json").read_text("utf-8"))


def result_of_diff(
    *,
    lessons: Iterable[Lesson] | None = None,
    alignment: Alignment | None = None,
    account: str | None = None,
    differences: Iterable[Note] | None = None,
    tutorials: Iterable[Outdated] | None = None,
    files: Iterable[Path] = (),
) -> dict[str, Any]:
    """Return one object with what the command showed; what it did not show is null.

    Args:
        lessons: the list of lessons.
        alignment: two sources side by side.
        account: the account of the PyTorch script, beside an alignment with a folder that `port script` wrote.
        differences: the notes.
        tutorials: the rows of outdated code.
        files: the files that were written.
    """
    return {
        "command": "diff",
        "exit_code": 0,
        "lessons": None if lessons is None else [_lesson(lesson) for lesson in lessons],
        "alignment": None if alignment is None else _alignment(alignment, account),
        "differences": None if differences is None else [asdict(note) for note in differences],
        "tutorials": None if tutorials is None else [asdict(row) for row in tutorials],
        "files": [str(path) for path in files],
    }


def _lesson(lesson: Lesson) -> dict[str, str]:
    return {"name": lesson.name, "about": lesson.about(), "torch": str(lesson.torch), "jax": str(lesson.jax)}


def _alignment(alignment: Alignment, account: str | None) -> dict[str, Any]:
    return {
        "left": alignment.left.name,
        "right": alignment.right.name,
        "account": account,
        "remarks": list(alignment.remarks),
        "rows": [_row(row) for row in alignment.rows],
    }


def _row(row: AlignedRow) -> dict[str, Any]:
    left, right = (None if line is None else line._asdict() for line in row)
    return {"kind": row.kind, "left": left, "right": right}
