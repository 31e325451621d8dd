"""Print what matching two models found: the verdict, the table, the open rows and how to decide them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from port.judging import Status
from port.matching import Match, Row
from port.visible import visible

_STYLES = {"activations": "yellow", "your rule": "cyan", "no twin needed": "dim"}
_VERDICTS = {Status.AGREE: "green", Status.DIFFER: "red", Status.CANNOT_JUDGE: "yellow"}
_FINDINGS = 8
"""How many lines of a failed check are shown."""


def print_match(found: Match, console: Console, *, file: Path | None = None) -> None:
    """Print the table with repeated layers folded, the verdict, the open rows, and where the mapping was written.

    Args:
        found: the match to print.
        console: where to print.
        file: where the mapping was written, if it was.
    """
    console.print(_table((row for row in found.rows if row.by != "open"), console))
    say = _saying(console)
    style = _VERDICTS[found.status]
    say(f"[bold {style}]{_shown(found.sentence, console)}[/]")
    for row in found.open:
        say(f"  [red]open[/] {_shown(_ends(row), console)}: {_shown(row.note, console)}")
        for candidate in row.candidates:
            say(f"    could be {_shown(str(candidate), console)}")
    for line in found.advice:
        say(f"  to decide it: {_shown(line, console)}")
    for line in found.trains_otherwise:
        say(f"  [red]in training they differ[/]: {_shown(line, console)}")
    for line in found.remarks:
        say(f"  [yellow]{_shown(line, console)}[/]")
    if found.report is not None and not found.is_proved:
        for line in str(found.report).splitlines()[1 : 1 + _FINDINGS]:
            say(f"[red]{_shown(line, console)}[/]")
    if file is not None:
        what = "the mapping" if found.is_proved else "what is proposed, which is not proved,"
        say(f"{what} is written to {_shown(str(file), console)}")


def _table(rows: Iterable[Row], console: Console) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("torch", "Flax", "times", "by", "how"):
        table.add_column(column, overflow="fold", justify="right" if column == "times" else "left")
    for row, times in _folded(rows):
        style = _STYLES.get(row.by, "")
        by = f"[{style}]{row.by}[/]" if style else row.by
        table.add_row(
            _shown(_names(row.torch), console),
            _shown(_names(row.flax), console),
            str(times) if times > 1 else "",
            by,
            _shown(row.note, console),
        )
    return table


def _folded(rows: Iterable[Row]) -> list[tuple[Row, int]]:
    """Fold rows that are equal but for their numbers; a star replaces each number that differs."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault((_starred(row.torch), _starred(row.flax), row.by, row.note), []).append(row)
    folded = []
    for same in found.values():
        first = same[0]
        if len(same) > 1:
            torch, flax = (_differing([getattr(row, side) for row in same]) for side in ("torch", "flax"))
            first = Row(torch, flax, first.by, first.note)
        folded.append((first, len(same)))
    return folded


def _starred(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(re.sub(r"\d+", "*", name) for name in names)


def _differing(rows: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return names with a star in place of each number that differs between the rows."""
    found = []
    for same in zip(*rows, strict=True):
        parts = [re.split(r"(\d+)", name) for name in same]
        found.append("".join(part[0] if len(set(part)) == 1 else "*" for part in zip(*parts, strict=True)))
    return tuple(found)


def _names(names: tuple[str, ...]) -> str:
    """Return the names of one module in short form: ``layers.*.fc.{weight, bias}``."""
    short: dict[str, list[str]] = {}
    for name in names:
        path, _, local = name.rpartition(".")
        short.setdefault(path, []).append(local)
    if len(short) > 4:  # the layers of a stack
        first, *_, last = names
        return f"{first} … {last}"
    parts = [
        f"{path}.{locals_[0]}" if path and len(locals_) == 1 else f"{path}.{{{', '.join(locals_)}}}" if path
        else ", ".join(locals_)
        for path, locals_ in short.items()
    ]  # fmt: skip
    return ", ".join(parts) or "–"


def _ends(row: Row) -> str:
    return f"{_names(row.torch)} → {_names(row.flax)}"


def _saying(console: Console) -> Any:
    return lambda text: console.print(text, soft_wrap=True, highlight=False)


def _shown(text: str, console: Console) -> str:
    """Escape text from outside: nothing in it may act as markup or as a terminal command."""
    return escape(visible(text, console.encoding))
