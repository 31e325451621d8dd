"""The page of several runs: one self-contained HTML file that needs no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from port.records import RecordLine
from port.report.colours import JAX, ON_DARK, TORCH, smallest_drawn
from port.report.page.page import page_environment, page_file
from port.report.page.replacing import check_page
from port.report.page.scripts import hash_of, in_script, packed_plotly
from port.report.page.thinning import kept
from port.report.runs.run_folder import RunFolder
from port.report.runs.table import table_of_options, table_of_runs
from port.training.judgement import Outcome
from port.weights.whole import whole

NUMBERS = 40_000
"""The most numbers that all curves of a page hold, as on the page of one run."""
ON_LIGHT_AND_DARK = (
    ("#1d6fa5", "#63b3ea"),
    ("#c2410c", "#fb923c"),
    ("#15803d", "#4ade80"),
    ("#7e22ce", "#c084fc"),
    ("#b91c5c", "#f472b6"),
    ("#0f766e", "#2dd4bf"),
    ("#854d0e", "#facc15"),
    ("#475569", "#cbd5e1"),
)
"""The runs' colours, on a light and on a dark background; further runs reuse them with dashes."""


def write_runs_page(runs: Sequence[RunFolder], path: Path) -> None:
    """Write the page of several runs.

    Args:
        runs: at least one.
        path: the file; its name ends with .html. An earlier page is replaced.

    Raises:
        UsageError: the name does not end with .html, or the file is there and no page of port's.
        BrokenWeights: the file cannot be written.
    """
    check_page(path)
    plotly, script = packed_plotly(), Markup(page_file("shared.js") + _file("runs.js"))
    names = list(dict.fromkeys(one.name for run in runs for one in run.comparisons))
    page = (
        page_environment()
        .from_string(page_file("table.jinja") + _file("runs_page.html.jinja"))
        .render(
            title=path.stem,
            headline=headline(runs),
            runs=table_of_runs(runs),
            differ=table_of_options(runs, differ=True),
            shared=table_of_options(runs, differ=False),
            names=names,
            data=in_script([_figure(name, runs, NUMBERS // len(names)) for name in names]),
            style=Markup(page_file("style.css")),
            colours={"torch": TORCH, "jax": JAX},
            on_dark={"torch": ON_DARK[TORCH], "jax": ON_DARK[JAX]},
            plotly=plotly.text,
            script=script,
            hashes=[plotly.hash, hash_of(script)],
        )
    )
    with whole(path, overwrite=True, may_replace=lambda folder: False, what="the page") as partial:
        partial.write_text(page, encoding="utf-8", newline="\n")


def headline(runs: Sequence[RunFolder]) -> str:
    """Return the page's headline: how many runs agree."""
    counts: dict[str, int] = {}
    for run in runs:
        counts[str(run.status)] = counts.get(str(run.status), 0) + 1
    said = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}: {said}."


def _figure(name: str, runs: Sequence[RunFolder], numbers: int) -> Mapping[str, Any]:
    """Return the curves of all runs that have a comparison of this name."""
    having = [(place, run, one) for place, run in enumerate(runs) for one in run.comparisons if one.name == name]
    most = max(20, numbers // (4 * len(having)))
    precision = having[0][2].verdict.precision
    return {
        "name": name,
        "floor": smallest_drawn(precision),
        "runs": [{"name": run.name, **_look(place), **_curves(one, most)} for place, run, one in having],
    }


def _look(place: int) -> Mapping[str, Any]:
    light, dark = ON_LIGHT_AND_DARK[place % len(ON_LIGHT_AND_DARK)]
    return {"light": light, "dark": dark, "again": place // len(ON_LIGHT_AND_DARK)}


def _curves(one: Outcome, most: int) -> Mapping[str, Any]:
    """Return both sides' losses and their relative difference, at about ``most`` steps."""
    steps = sorted(set(one.torch.steps) | set(one.jax.steps))
    apart = dict(zip(one.verdict.steps.steps, one.verdict.steps.values, strict=True))
    columns = [
        [_loss(one.torch.steps.get(step)) for step in steps],
        [_loss(one.jax.steps.get(step)) for step in steps],
        [_finite(apart.get(step)) for step in steps],
    ]
    places = kept(columns, most)
    torch, jax, differences = ([column[place] for place in places] for column in columns)
    return {"steps": [steps[place] for place in places], "torch": torch, "jax": jax, "differences": differences}


def _loss(line: RecordLine | None) -> float | None:
    return None if line is None else _finite(line.loss)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
