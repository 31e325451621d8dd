"""Tables below the figures: the values as text, for readers who cannot see the figure."""

from __future__ import annotations

from dataclasses import dataclass, field

from port.report.page.curves import Curves
from port.report.page.panels import Panel
from port.report.page.subject import Subject
from port.report.page.words import apart, number

NTH = ("", "second ", "third ")
"""Ordinals of the largest differences that a table lists."""
MOST_ROWS = 12
"""A table shows all steps if there are at most this many."""


@dataclass(frozen=True)
class Table:
    """A plain table.

    Attributes:
        caption: the table's title.
        headers: of the columns; the first is for the row names.
        rows: the cells of each row, one per header.
        marked: indices of highlighted rows.
    """

    caption: str
    headers: list[str]
    rows: list[list[str]]
    marked: frozenset[int] = field(default=frozenset())


def table_of_losses(subject: Subject, curves: Curves, caption: str, *, all_rows: bool = False) -> Table:
    """Return a table of the first and last steps, where the losses part, and the largest differences.

    Args:
        subject: the comparison.
        curves: its curves, before thinning.
        caption: the table's title.
        all_rows: whether to show every step if there are few.
    """
    first = subject.verdict.first if subject.verdict is not None else None
    parted = first.step if first is not None else None
    chosen = _chosen(curves, parted)
    if all_rows and len(curves.steps) <= MOST_ROWS:
        chosen = {place: chosen.get(place, "") for place in range(len(curves.steps))}
    controls = [header for header, there in (("limit", curves.limits), ("controls, so far", curves.band)) if any(there)]
    rows = []
    for place in sorted(chosen):
        row = [chosen[place], str(curves.steps[place])]
        row += [number(side[place]) for side in curves.sides]
        row += [apart(curves.differences[place])]
        if "limit" in controls:
            row += [apart(curves.limits[place])]
        if "controls, so far" in controls:
            row += [apart(curves.band[place])]
        rows.append(row)
    marked = frozenset(i for i, row in enumerate(rows) if row[1] == str(parted))
    return Table(caption, ["", "step", *subject.labels, "relative difference", *controls], rows, marked)


def table_of_number(subject: Subject, panel: Panel) -> Table:
    """Return a table of a number's last values, and where the sides are furthest apart."""
    curves, rows = panel.curves, []
    both = [place for place, difference in enumerate(curves.differences) if difference is not None]
    if both:
        largest = max(both, key=lambda place: curves.differences[place] or 0.0)
        last, equal = len(curves.steps) - 1, not curves.differences[largest]
        if not equal and largest != last:
            rows.append(_row("largest difference", panel, largest))
        what = "last" if equal or largest != last else "last, and largest difference"
        if equal and len(both) == len(curves.steps):
            what = f"equal at every {panel.where}; the last"
        rows.append(_row(what, panel, last))
    return Table(f"{panel.name}, by {panel.where}", ["", *subject.labels, "relative difference"], rows)


def _row(what: str, panel: Panel, place: int) -> list[str]:
    values = [number(side[place], whole=panel.whole) for side in panel.curves.sides]
    return [f"{what}, step {panel.curves.steps[place]}", *values, apart(panel.curves.differences[place])]


def _chosen(curves: Curves, parted: int | None) -> dict[int, str]:
    """Return the indices worth a row, each with its description."""
    said: dict[int, list[str]] = {}

    def say(place: int | None, what: str) -> None:
        if place is not None:
            said.setdefault(place, []).append(what)

    if not curves.steps:
        return {}
    say(0, "first")
    inexact = next((place for place, value in enumerate(curves.differences) if value), None)
    say(inexact, "the first not equal to the last bit")
    say(next((place for place, step in enumerate(curves.steps) if step == parted), None), "where they part")
    apart_most = sorted(
        (place for place, value in enumerate(curves.differences) if value),
        key=lambda place: -(curves.differences[place] or 0.0),
    )
    for place, nth in zip(apart_most, NTH, strict=False):
        say(place, f"{nth}largest difference")
    say(len(curves.steps) - 1, "last")
    return {place: "; ".join(whats) for place, whats in said.items()}
