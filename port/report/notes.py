"""Print the notes (semantic differences) and the table of outdated tutorial code in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from port.pairs.notes import Note
from port.pairs.tutorials import Outdated
from port.visible import visible

TORCH, JAX = "red", "cyan"


def print_notes(notes: Sequence[Note], console: Console) -> None:
    """Print every note: what PyTorch does, what JAX does, the remedy, and the tests that show it."""
    for note in notes:
        _print_heading(console, note.id, note.title)
        _print_columns(console, PyTorch=(note.torch, TORCH), JAX=(note.jax, JAX), remedy=(note.remedy, ""))
        below = [f"shown by {test}" for test in note.tests] or [f"not tested: {note.untested}"]
        _print_below(console, below)


def print_outdated(rows: Sequence[Outdated], console: Console) -> None:
    """Print each line of an old tutorial and what to write today."""
    for row in rows:
        _print_heading(console, row.id, f"{row.fate}: {row.error}" if row.error else row.fate)
        _print_columns(console, **{"an old tutorial says": (row.says, "red"), "today": (row.today, "green")})
        _print_below(console, [row.happened, *([f"From PyTorch: {row.torch}"] if row.torch else [])])


def _print_heading(console: Console, id: str, title: str) -> None:
    console.print(Text(visible(f"{id:<4} {title}".rstrip(), console.encoding), "bold"))


def _print_columns(console: Console, **columns: tuple[str, str]) -> None:
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 3, 0, 0), show_header=True)
    for name, (_, style) in columns.items():
        table.add_column(name, header_style=style or "bold", ratio=1, overflow="fold")
    table.add_row(*(_text(text, console) for text, _ in columns.values()))
    console.print(Padding(table, (0, 0, 0, 5)))


def _print_below(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(Padding(Text(visible(line, console.encoding), "dim", overflow="fold"), (0, 0, 0, 5)))
    console.print()


def _text(text: str, console: Console) -> Text:
    return Text("\n".join(visible(line, console.encoding) for line in text.split("\n")))
