"""Print what a translation or an audit found, in the terminal."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from port.judging import Status
from port.mapping import TORCH_ONLY
from port.report.frozen import frozen_count, frozen_places
from port.report.original_places import nearest, place_of
from port.report.translation import by_reason, note_order
from port.translation import Translation
from port.translation.audit import Audit
from port.translation.verify.trained_alike import WHAT as FROZEN_ALIKE
from port.visible import visible

SHOWN = 6
"""How many places are named for one item."""


def print_translation(translation: Translation, console: Console, *, files: Iterable[Path] = ()) -> None:
    """Print the report in a few lines: whether it is proved, what is left to do, and where the files are.

    Args:
        translation: the translation to describe.
        console: where to print.
        files: the files that were written.
    """
    say = _saying(console)
    proof = translation.proof
    if proof is not None and not proof.agrees:
        differs = proof.status is Status.DIFFER
        colour = "red" if differs else "yellow"
        say(
            "[bold red]The two sides differ[/]: what was written is not the same model. "
            f"{_shown(proof.failed, console)}"
            if differs
            else "[bold yellow]Whether both sides are the same model cannot be judged[/]. "
            f"{_shown(proof.unjudged, console)}"
        )
        for line in proof.explanation.lines:
            say(f"  {_shown(line, console)}")
        for row in proof.rows:
            if not row.agrees:
                say(f"  [{colour}]{_shown(str(row), console)}[/]")
    elif proof is not None:
        worst = ", ".join(f"{what} {value:.0e}" for what, value in _worst(proof).items())
        calls = f", in {1 + len(translation.others)} example calls" if translation.others else ""
        say(f"[bold green]Both sides are the same model[/] in {proof.precision}{calls}: {worst}")
    elif translation.unwritten:
        say("[bold yellow]Not finished[/], and so not compared: these places are left to write")
    else:
        say("[yellow]Not compared with the original[/]")
    if translation.frozen:
        places = frozen_places(translation)
        shown = ", ".join(places[:SHOWN]) + (f" and {len(places) - SHOWN} more" if len(places) > SHOWN else "")
        say(f"frozen, as PyTorch does not train them: {frozen_count(translation)}: {_shown(shown, console)}")
    for remark in proof.remarks if proof is not None else ():
        say(f"  [yellow]{_shown(remark, console)}[/]")
    if proof is not None and proof.lengths:
        say(f"  compared at {_shown(proof.lengths, console)}")
    for line in translation.settings.lines:
        say(f"  {_shown(line, console)}")
    for line in translation.apart:
        say(f"  {_shown(line, console)}")
    if translation.unnamed:
        left_out = len(translation.unnamed) - SHOWN
        unnamed = ", ".join(translation.unnamed[:SHOWN]) + (f" and {left_out} more" if left_out > 0 else "")
        say(f"  without logical names, and whole on every device of a mesh: {_shown(unnamed, console)}")
    for line in translation.untaken:
        say(f"  not translated: {_shown(line, console)}")
    if translation.unwritten:
        console.print(_unwritten(translation, console))
    if translation.without_start:
        say(
            f"[yellow]A new {_shown(translation.name, console)}(rngs=…) raises[/]: its code does not show how these "
            "are initialised; load() fills them"
        )
        for why, names in by_reason(translation.without_start).items():
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            say(f"  {_shown(', '.join(names[:SHOWN]), console)}{more}: {_shown(why, console)}")
    if translation.copied_starts:
        count = _count(len(translation.copied_starts), "parameter")
        say(f"[yellow]{count} that the original starts as copies[/] of others: here each draws its own (see report.md)")
    left = sum(len(entry.sources) for entry in translation.mapping.entries if entry.collection == TORCH_ONLY)
    moved = sum(len(entry.sources) for entry in translation.mapping.entries) - left
    classes = translation.source.count("(nnx.Module):")
    notes = ", ".join(sorted(translation.notes, key=note_order))
    say(
        f"[dim]{_count(classes, 'class', 'classes')}, {_count(moved, 'tensor')} moved, {left} left out, "
        f"{_count(translation.transposes, 'transpose')} left, notes {notes or 'none'}[/]"
    )
    for remark in translation.package.remarks if translation.package is not None else ():
        say(f"  [yellow]{_shown(remark, console)}[/]")
    written = list(files)
    if written:
        folder = Path(os.path.commonpath([path.parent for path in written]))
        paths = ", ".join(path.relative_to(folder).as_posix() for path in written)
        say(f"written to {_shown(str(folder), console)}: {_shown(paths, console)}")


def print_audit(audit: Audit, console: Console, *, name: str) -> None:
    """Print the layers and operators of a model, counted; those without a pair come first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "layer or operator", "in JAX", "times", "where"):
        table.add_column(column, overflow="fold", justify="right" if column == "times" else "left")
    for row in audit.rows:
        places = nearest(map(str, row.places[:SHOWN]))
        shown = "; ".join(places) + (f" and {len(row.places) - SHOWN} more" if len(row.places) > SHOWN else "")
        table.add_row(
            "[green]yes[/]" if row.is_known else "[bold red]no[/]",
            _shown(row.name, console),
            _shown(row.twin, console) if row.is_known else f"[red]{_shown(row.why, console)}[/]",
            str(row.count),
            _shown(shown, console),
        )
    console.print(table)
    say = _saying(console)
    kinds = Counter(row.kind for row in audit.rows)
    unknown = audit.unknown
    counted = f"{_count(kinds['layer'], 'kind')} of layers and {_count(kinds['operator'], 'operator')}"
    if unknown:
        times = sum(max(1, len(row.places)) for row in unknown)
        say(
            f"[bold red]{_shown(name, console)}: {len(unknown)} of {len(audit.rows)} have no pair[/] ({counted}), at "
            f"{_count(times, 'place')}; nothing was written"
        )
    else:
        say(f"[bold green]{_shown(name, console)}: all of {counted} have pairs[/]; nothing was written")


def _worst(proof: Any) -> dict[str, float]:
    """Return the largest difference of each kind, over both modes."""
    worst: dict[str, float] = {}
    for row in proof.rows:
        if row.what == FROZEN_ALIKE:
            continue
        what = row.what.partition(" in ")[0].partition(" after ")[0]
        worst[what] = max(worst.get(what, 0.0), row.difference)
    return worst


def _unwritten(translation: Translation, console: Console) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("what", "where", "why"):
        table.add_column(column, overflow="fold")
    for row in translation.unwritten:
        table.add_row(*(_shown(text, console) for text in (row.what, place_of(row), row.why)))
    return table


def _saying(console: Console) -> Any:
    return lambda text: console.print(text, soft_wrap=True, highlight=False)


def _shown(text: str, console: Console) -> str:
    """Escape text from outside: nothing in it may act as markup or as a terminal command."""
    return escape(visible(text, console.encoding))


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
