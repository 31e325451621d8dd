"""The tables of several runs: one row for each comparison, and the options that differ between runs."""

from __future__ import annotations

from collections.abc import Sequence

from port.records import steps_per_second
from port.report.page.settings import in_words
from port.report.page.tables import Table
from port.report.page.words import apart, number
from port.report.runs.run_folder import RunFolder
from port.training.judgement import Outcome

HEADERS = [
    "run",
    "precision",
    "verdict",
    "steps",
    "largest difference",
    "final weights",
    "last loss, torch",
    "last loss, jax",
    "torch, steps/s",
    "jax, steps/s",
]


def table_of_runs(runs: Sequence[RunFolder]) -> Table:
    """Return a row for each comparison of each run; those that do not agree are marked."""
    rows = [[run.name, *_cells(one)] for run in runs for one in run.comparisons]
    return Table("runs", HEADERS, rows, frozenset(i for i, row in enumerate(rows) if row[2] != "agree"))


def _cells(one: Outcome) -> list[str]:
    largest = one.verdict.steps.largest()
    sides = one.torch, one.jax
    return [
        one.name,
        str(one.verdict.status),
        str(len(one.verdict.steps.steps)),
        "–" if largest is None else f"{apart(largest[1])} at step {largest[0]}",
        "–" if one.weights is None else f"{apart(one.weights.difference)} ({one.weights.where})",
        *(number(next(reversed(side.steps.values())).loss) if side.steps else "–" for side in sides),
        *("–" if (speed := steps_per_second(side)) is None else f"{speed:.4g}" for side in sides),
    ]


def table_of_options(runs: Sequence[RunFolder], *, differ: bool) -> Table:
    """Return the runs' options, one column for each run.

    Args:
        runs: the runs.
        differ: whether to return the options that differ between runs; otherwise those that are equal, in one column.
    """
    names = list(dict.fromkeys(name for run in runs for name in run.config if name != "out"))  # the folder itself
    values = {name: [in_words(run.config.get(name)) for run in runs] for name in names}
    chosen = {name: of for name, of in values.items() if (len(set(of)) > 1) == differ}
    if differ:
        return Table("options that differ", ["", *(run.name for run in runs)], [[n, *of] for n, of in chosen.items()])
    rows = [[name, of[0]] for name, of in chosen.items() if of[0] != in_words(None)]
    return Table("options that all share", ["", "value"], rows)
