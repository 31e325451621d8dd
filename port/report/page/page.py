"""Render the run page: one HTML file, written completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from port.errors import UsageError
from port.report.colours import CONTROL, JAX, LIMIT, ON_DARK, TORCH
from port.report.page import curves, panels, settings, tables, where_to_look, words
from port.report.page.replacing import check_page
from port.report.page.scripts import hash_of, in_script, packed_plotly
from port.report.page.subject import Subject, subject_of
from port.training import Outcome, Remains

NUMBERS = 40_000
"""The most numbers that all figures of a page hold: some 800 kB, next to 1.9 MB of plotly.js."""
COLOURS = {"torch": TORCH, "jax": JAX, "limit": LIMIT, "control": CONTROL}


def write_run_page(
    outcomes: Sequence[Outcome | Remains],
    path: Path,
    *,
    title: str = "",
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, Any] | None = None,
    ended: str = "",
) -> None:
    """Write the page of a run: one self-contained HTML file that needs no network.

    Args:
        outcomes: the run's comparisons, the proof first.
        path: the file; its name ends with .html. An earlier page is replaced.
        title: the run's name; by default the file's stem.
        config: the run's options; by default those in the records.
        environment: where it ran, in the form of ``environment.json``.
        ended: what ended the run, if it stopped early.

    Raises:
        UsageError: the name does not end with .html, the file is there and no page of port's, or cannot be written.
    """
    check_page(path)
    page = _filled([subject_of(outcome) for outcome in outcomes], title or path.stem, config, environment, ended)
    path = path.resolve()  # keep a symbolic link
    temporary = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        temporary.write_text(page, encoding="utf-8", newline="\n")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"the page {path} cannot be written: {error.strerror}") from error


def _filled(
    subjects: list[Subject],
    title: str,
    config: Mapping[str, Any] | None,
    environment: Mapping[str, Any] | None,
    ended: str,
) -> str:
    config = config or {}
    figures: dict[str, dict[str, Any]] = {}
    numbers = [panels.panels(subject) for subject in subjects]
    most = _most_steps(numbers)
    parts = [
        _part(subject, number, its, figures, most)
        for number, (subject, its) in enumerate(zip(subjects, numbers, strict=True), start=1)
    ]
    options, defaults, differ = settings.config_of(subjects, config)
    plotly, script = packed_plotly(), Markup(page_file("shared.js") + page_file("script.js"))
    template = page_environment().from_string(page_file("table.jinja") + page_file("run_page.html.jinja"))
    return template.render(
        title=title,
        headline=words.headline(subjects),
        ended=ended,
        parts=parts,
        status=_worst(parts),
        to_look=any(subject.verdict.findings or subject.verdict.hints for subject in subjects if subject.verdict),
        speed=settings.speed_of(subjects),
        config=options,
        defaults=defaults,
        differ=differ,
        machine=settings.machine_of(environment or {}),
        sides=settings.sides_of(subjects),
        notes=where_to_look.notes_of(subjects, {**_configs(subjects), **config}),
        layers_are_known=where_to_look.layers_are_known(subjects),
        data=in_script(figures),
        style=Markup(page_file("style.css")),
        colours=COLOURS,
        on_dark={name: ON_DARK[colour] for name, colour in COLOURS.items()},
        plotly=plotly.text,
        script=script,
        hashes=[plotly.hash, hash_of(script)],
    )


def _part(
    subject: Subject, number: int, numbers: list[panels.Panel], figures: dict[str, dict[str, Any]], most: int
) -> dict[str, Any]:
    """Return the template's values for one comparison, and add its figures to ``figures``."""
    figure, drawn = curves.figure_of_losses(subject, most)
    figures[f"figure-{number}"] = {**figure, "group": number}
    losses, tested = curves.losses(subject), curves.evaluations(subject)
    drawable = [panel for panel in numbers if not panel.only_counts]
    shown = []
    for place, panel in enumerate(drawable, start=1):
        name = f"figure-{number}-{place}" if place <= panels.MOST_PANELS else ""
        if name:
            figures[name] = {**panel.as_json(subject, most // 2), "group": number}
        shown.append({"figure": name, "name": panel.name, "table": tables.table_of_number(subject, panel)})
    return {
        "subject": subject,
        "number": number,
        "status": words.status_of(subject),
        "colour": words.colour_of(subject.verdict.status) if subject.verdict is not None else "",
        "kind": words.kind_of(subject),
        "drawn": drawn,
        "gaps": curves.not_finite(subject),
        "alternative": _alternative(subject, losses),
        "table": tables.table_of_losses(subject, losses, "training loss, by step"),
        "tested": tables.table_of_losses(subject, tested, "loss over the test split", all_rows=True),
        "evaluations": tested.of,
        "panels": shown,
        "counts": sorted({panel.name for panel in numbers if panel.only_counts}),
        "facts": _facts(subject, losses),
    }


def _alternative(subject: Subject, losses: curves.Curves) -> str:
    """Return the figure's text alternative."""
    said = f"Loss of {' and '.join(subject.labels)} over {losses.of} steps, and below it their relative difference"
    largest = subject.verdict.steps.largest() if subject.verdict is not None else None
    if largest is None:
        return f"{said}. The table below holds its values."
    return f"{said}: {words.apart(largest[1])} at most, at step {largest[0]}. The table below holds its values."


def _facts(subject: Subject, losses: curves.Curves) -> list[tuple[str, str]]:
    """Return the large numbers shown with the verdict."""
    facts = [("steps", f"{losses.of:,}")]
    verdict = subject.verdict
    largest = verdict.steps.largest() if verdict is not None else None
    if verdict is not None and largest is not None:
        facts.append(("largest difference of a loss", words.apart(largest[1])))
        limits = dict(zip(verdict.steps.steps, verdict.steps.limits, strict=True))
        if limits[largest[0]] == limits[largest[0]]:
            facts.append(("its limit there", words.apart(limits[largest[0]])))
    if subject.weights is not None:
        facts.append(("final weights", words.apart(subject.weights.difference)))
    return facts


def _most_steps(numbers: Sequence[Sequence[panels.Panel]]) -> int:
    """Return how many steps a loss figure may draw so that all figures stay within `NUMBERS`; a panel gets half."""
    columns = 0
    for its in numbers:
        drawn = [panel for panel in its if not panel.only_counts]
        columns += 6 + 2 + 2 * min(len(drawn), panels.MOST_PANELS)  # steps, sides, difference, limit, band; tested; …
    return NUMBERS // max(columns, 1)


def _configs(subjects: Sequence[Subject]) -> dict[str, Any]:
    """Return the options that the records hold."""
    options: dict[str, Any] = {}
    for subject in subjects:
        for _, record in subject.records:
            config = record.about.get("config")
            options |= config if isinstance(config, dict) else {}
    return options


def _worst(parts: Sequence[Mapping[str, Any]]) -> str:
    there = {part["status"] for part in parts}
    return next((status for status in ("broken", "differ", "unjudged", "agree") if status in there), "broken")


@cache
def page_environment() -> Environment:
    """Return the templates' environment: everything is escaped, and an undefined name is an error."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=words.shown, trim_blocks=True)
    environment.lstrip_blocks = True
    environment.filters |= {"coded": words.coded, "said": words.said}
    return environment


def page_file(name: str) -> str:
    """Return the text of a file of this package."""
    return (files(__package__) / name).read_text(encoding="utf-8")
