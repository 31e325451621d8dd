"""`port diff [LESSON | A B]`"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import exists  # False of what is no path at all
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from tyro.conf import Positional, arg

from port.errors import UnknownChoice, UsageError
from port.lessons import (
    Source,
    align,
    find_lesson,
    lessons,
    print_alignment,
    print_lessons,
    read_source,
    whole_width,
)


@dataclass(frozen=True)
class Arguments:
    """Two sources beside each other, definition by definition: a lesson's two files, or any two. Without either, lists
    the lessons in reading order.

    Between the columns, | is a line that is said otherwise, < and > are lines of one side alone. Exits 0, or 2 on bad
    input.
    """

    what: Annotated[Positional[tuple[str, ...]], arg(metavar="[LESSON | A B]", help_behavior_hint="")] = ()
    """a lesson's name, or two files"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    what = tyro.cli(Arguments, prog="port diff", args=arguments).what
    if len(what) > 2:
        raise UsageError(f"port diff takes a lesson, or two files; got {len(what)} arguments")
    if not what:
        print_lessons(lessons(), Console())
        return 0
    alignment = align(*(_lesson(what[0]) if len(what) == 1 else _files(what)))
    # In a file or a pipe the columns are as wide as the lines, unless a width is given.
    fits = sys.stdout.isatty() or "COLUMNS" in os.environ
    print_alignment(alignment, Console() if fits else Console(width=whole_width(alignment)))
    return 0


def _lesson(name: str) -> tuple[Source, Source]:
    try:
        return find_lesson(name).sources()
    except UnknownChoice:
        if exists(name):
            raise UsageError(f"{name!r} is one path; port diff takes two files, or the name of a lesson") from None
        raise


def _files(paths: Sequence[str]) -> tuple[Source, Source]:
    for path in paths:
        if not exists(path) and path in (lesson.name for lesson in lessons()):
            raise UsageError(f"{path!r} is a lesson, and no file here; port diff takes a lesson alone, or two files")
    left, right = (read_source(Path(path)) for path in paths)
    return left, right
