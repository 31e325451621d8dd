"""`port diff [LESSON | A B] [--html SITE | --table | --tutorials] [--json]`: shows two sources side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import exists  # returns False for invalid paths
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from port.cli.models import register_pairs
from port.cli.parsing import parsed
from port.errors import UnknownChoice, UsageError
from port.extras import require
from port.lessons import (
    Lesson,
    SourceText,
    account_in,
    align,
    find_lesson,
    is_written_folder,
    lessons,
    print_alignment,
    print_lessons,
    read_source,
    read_written_folder,
    whole_width,
)
from port.pairs.notes import NOTES
from port.pairs.tutorials import OUTDATED
from port.report import print_notes, print_outdated
from port.report.diff import result_of_diff
from port.report.results import printed
from port.visible import visible

TABLE_WIDTH = 160  # columns of a table in a file or a pipe


@dataclass(frozen=True)
class Arguments:
    """Show two sources side by side, definition by definition: a lesson's two files, or any two. Without either, list
    the lessons in reading order.

    Between the columns, | marks a line that was changed, < and > lines of one side only. Exits 0, or 2 on bad
    input.
    """

    what: Annotated[Positional[tuple[str, ...]], arg(metavar="[LESSON | A B]", help_behavior_hint="")] = ()
    """a lesson's name, or two files"""
    html: Annotated[Path | None, arg(metavar="SITE")] = None
    """write a static site into this folder, with the guides, the reference, the differences, old tutorials and the
    cheat sheet; without a lesson or files, the whole tour"""
    table: bool = False
    """print where the two frameworks silently differ, with the remedy and the test that shows it"""
    tutorials: bool = False
    """print what old JAX tutorials use, and what replaced it"""
    pairs: Annotated[Path | None, arg(metavar="FILE.py")] = None
    """your own pairs, of layers, operators, optimizers or schedules, for the site's cheat sheet"""
    json: bool = False
    """print the result as JSON, for programs"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    options = parsed(Arguments, "diff", arguments)
    _check(options)
    if options.table or options.tutorials:
        _show_table(options)
    elif options.html is not None:
        _write_site(options, options.html)
    elif options.what:
        _show_alignment(options)
    else:
        _show_lessons(options)
    return 0


def _show_lessons(options: Arguments) -> None:
    if options.json:
        print(printed(result_of_diff(lessons=lessons())))
    else:
        print_lessons(lessons(), Console())


def _show_alignment(options: Arguments) -> None:
    account = _account(options.what)
    alignment = align(*_sources(options.what))
    if options.json:
        print(printed(result_of_diff(alignment=alignment, account=account)))
        return
    if account is not None:
        print(account, end="\n\n")
    # In a file or a pipe the columns are as wide as the lines, unless a width is set.
    print_alignment(alignment, Console() if _has_width() else Console(width=whole_width(alignment)))


def _show_table(options: Arguments) -> None:
    console = Console() if _has_width() else Console(width=TABLE_WIDTH)
    if options.json:
        print(printed(result_of_diff(tutorials=OUTDATED) if options.tutorials else result_of_diff(differences=NOTES)))
    elif options.tutorials:
        print_outdated(OUTDATED, console)
    else:
        print_notes(NOTES, console)


def _write_site(options: Arguments, folder: Path) -> None:
    # The cheat sheet's defaults and schedules are read from torch's own classes.
    require("port diff --html", torch=("torch",), report=("jinja2", "pygments", "markdown_it", "griffe"))
    from port.report.site import reading_of_files, reading_of_lesson, write_site

    if options.pairs is not None:
        register_pairs(options.pairs)
    if len(options.what) == 2:
        readings = [reading_of_files(*_files(*options.what), account=_account(options.what))]
    else:
        readings = [reading_of_lesson(lesson) for lesson in ([_lesson(*options.what)] if options.what else lessons())]
    first = write_site(readings, folder)
    if options.json:
        print(printed(result_of_diff(files=[first])))
    else:
        print(f"{visible(str(first), sys.stdout.encoding)} is the first page")


def _check(options: Arguments) -> None:
    if len(options.what) > 2:
        raise UsageError(f"port diff takes a lesson, or two files; got {len(options.what)} arguments")
    if sum((options.table, options.tutorials, options.html is not None)) > 1:
        raise UsageError("--table, --tutorials and --html exclude each other: pass only one of them")
    if options.pairs is not None and options.html is None:
        raise UsageError("--pairs is for the cheat sheet of the site: pass its folder too, with --html SITE")
    if options.what and (options.table or options.tutorials):
        raise UsageError(
            f"{'--table' if options.table else '--tutorials'} prints all of it; pass no lesson or files with it"
        )


def _sources(what: tuple[str, ...]) -> tuple[SourceText, SourceText]:
    return _lesson(*what).sources() if len(what) == 1 else _files(*what)


def _account(what: tuple[str, ...]) -> str | None:
    """The account of the PyTorch file, line by line, if the other is a folder that `port script` wrote."""
    if len(what) == 1:
        return _lesson(*what).account()
    return account_in(Path(what[1])) if is_written_folder(Path(what[1])) else None


def _lesson(name: str) -> Lesson:
    try:
        return find_lesson(name)
    except UnknownChoice:
        if exists(name):
            raise UsageError(f"{name!r} is one path; port diff takes two files, or the name of a lesson") from None
        raise


def _files(torch: str, jax: str) -> tuple[SourceText, SourceText]:
    for path in (torch, jax):
        if not exists(path) and path in (lesson.name for lesson in lessons()):
            raise UsageError(f"{path!r} is a lesson, and no file here; port diff takes a lesson alone, or two files")
    read = read_written_folder if is_written_folder(Path(jax)) else read_source
    return read_source(Path(torch)), read(Path(jax))


def _has_width() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ
