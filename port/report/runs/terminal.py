"""Print several runs in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from port.report.page.tables import Table
from port.report.runs.run_folder import RunFolder
from port.report.runs.table import table_of_options, table_of_runs

COLOURS = {"agree": "green", "differ": "bold red", "cannot be judged": "yellow"}


def print_runs(runs: Sequence[RunFolder], console: Console, *, page: Path | None = None) -> None:
    """Print the runs' table, and the options that differ between them.

    Args:
        runs: at least one.
        console: where to.
        page: the path of their page, if one was written.
    """
    _print(table_of_runs(runs), console)
    differ = table_of_options(runs, differ=True)
    if differ.rows and len(runs) > 1:
        console.print()
        _print(differ, console)
    if page is not None:
        console.print(Text(f"\nthe curves: {page}"), soft_wrap=True)


def _print(table: Table, console: Console) -> None:
    printed = RichTable(box=None, pad_edge=False, header_style="bold")
    for header in table.headers:
        printed.add_column(Text(header), overflow="fold")
    for row in table.rows:
        printed.add_row(*(Text(cell, COLOURS.get(cell, "")) for cell in row))
    console.print(printed)
