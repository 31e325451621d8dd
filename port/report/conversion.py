"""Print what a conversion did: a table of the mapping, or a few lines."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from port.mapping import Entry
from port.mapping.patterns import PatternRow, counts, rolled
from port.visible import visible
from port.weights.conversion import Conversion

SHOWN = 10
"""How many names of a long list are printed."""


def print_conversion(done: Conversion, source: Path, console: Console, *, table: bool) -> None:
    """Print where each tensor went.

    Args:
        done: the result of `port.weights.conversion.convert`.
        source: the file that it read.
        console: where to print.
        table: print the whole mapping, one line per entry, with entries that repeat by index folded into one. Otherwise
            print only the number of tensors.
    """
    if table:
        console.print(_table(done, console))
    count = sum(len(entry.sources) for entry in done.moved)
    written = f", written to {done.out}" if done.out is not None else "; nothing was written"
    console.print(f"{count} tensors of {_shown(str(source), console)} fit{_shown(written, console)}", soft_wrap=True)
    _listed("left out", done.left_out, console)
    _listed("missing", done.missing, console)
    _listed("NaN, kept", {name: f"{count} of its elements" for name, count in done.nan.items()}, console)
    for remark in done.remarks:
        console.print(f"[yellow]look:[/] {_shown(remark, console)}", soft_wrap=True)


def _shown(text: str, console: Console) -> str:
    """Text that nothing in it may format, or act on the terminal: names come from files."""
    return escape("\n".join(visible(line, console.encoding) for line in text.split("\n")))


def _table(done: Conversion, console: Console) -> Table:
    rows = rolled([_row(entry, done) for entry in done.moved])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("from", "to", *(["each"] if any(row.each for row in rows) else []), "shape", "moves", "dtype"):
        table.add_column(name, overflow="fold")
    for row in rows:
        count, *others = row.rest
        both = (row.names[:count], row.names[count:])
        names = [escape("\n".join(visible(name, console.encoding) for name in each)) for each in both]
        counted = [counts(row.each)] if len(table.columns) > 5 else []
        table.add_row(*names, *counted, *others)
    return table


def _row(entry: Entry, done: Conversion) -> PatternRow[tuple[int, str, str, str]]:
    """Return a row: how many of its names are sources, then shapes, moves and dtype."""
    sources, targets = _named(entry.sources, entry, done.reverse), _named(entry.targets, entry, not done.reverse)
    moves = escape(", ".join(map(str, entry.moves))) or "–"
    return PatternRow((*sources, *targets), (len(sources), _shapes(entry), moves, _dtype(entry, done)))


def _named(names: tuple[str, ...], entry: Entry, is_flax: bool) -> list[str]:
    """Return names as they appear in the file: Flax's with their collection."""
    return [f"{entry.collection}.{name}" if is_flax else name for name in names]


def _shapes(entry: Entry) -> str:
    if entry.shapes is None:
        return ""
    before, after = ("\n".join(map(str, dict.fromkeys(shapes))) for shapes in (entry.shapes, entry.target_shapes()))
    return escape(before if before == after else f"{before} → {after}")


def _dtype(entry: Entry, done: Conversion) -> str:
    own = next((done.dtypes[name] for name in entry.sources if name in done.dtypes), "")
    is_floating = own.startswith(("float", "bfloat"))
    return f"{own} → {done.dtype}" if done.dtype and is_floating and own != done.dtype else own


def _listed(what: str, names: dict[str, str], console: Console) -> None:
    if not names:
        return
    console.print(f"[yellow]{what}:[/]")
    for name, why in list(names.items())[:SHOWN]:
        console.print(f"  {escape(visible(name, console.encoding))}: {_shown(why, console)}", soft_wrap=True)
    if len(names) > SHOWN:
        console.print(f"  and {len(names) - SHOWN} more")
