"""Print verdicts in the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from port.records import Differences, Record, Status, Verdict, first_step_seconds, steps_per_second
from port.training import Outcome
from port.visible import visible

STYLES = {Status.AGREE: "bold green", Status.DIFFER: "bold red", Status.CANNOT_JUDGE: "bold yellow"}


def print_outcomes(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print a run's verdicts: a sentence for each comparison, then one table with a column for each."""
    for outcome in outcomes:
        print_verdict(outcome.verdict, console)
    table = Table(title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("")
    for outcome in outcomes:
        table.add_column(f"{outcome.name}", overflow="fold")
    rows: dict[str, Callable[[Outcome], str]] = {
        "verdict": lambda o: f"[{STYLES[o.verdict.status]}]{o.verdict.status}[/]",
        "steps": lambda o: str(len(o.verdict.steps.steps)),
        "first loss, torch / jax": lambda o: _both(o, lambda r: f"{next(iter(r.steps.values())).loss:.6f}"),
        "last loss, torch / jax": lambda o: _both(o, lambda r: f"{next(reversed(r.steps.values())).loss:.6f}"),
        "first step to differ": lambda o: _first(o.verdict),
        "largest difference of a loss": lambda o: _largest(o.verdict.steps),
        "  share of its limit, at most": lambda o: _share(o.verdict.steps),
        "  the controls strayed": lambda o: _strayed(o.verdict.steps),
        "largest, in evaluation": lambda o: _largest(o.verdict.evaluations),
        "largest, in final weights": _weights,
        "accuracy, torch / jax": lambda o: _both(o, _accuracy),
        "device, torch / jax": lambda o: _both(o, lambda r: str(r.about.get("device", "–"))),
        "replicas, torch / jax": lambda o: _both(o, lambda r: str(r.about.get("replicas") or "–")),
        "matmul precision, torch / jax": lambda o: _both(o, lambda r: str(r.about.get("matmul_precision", "–"))),
        "first step with compilation, s": lambda o: _both(o, lambda r: _number(first_step_seconds(r), ".2f")),
        "steps/s after it, torch / jax": lambda o: _both(o, lambda r: _number(steps_per_second(r), ".0f")),
    }
    for name, cell in rows.items():
        cells = [cell(outcome) for outcome in outcomes]
        if any(value.strip("– /") for value in cells):
            table.add_row(name, *cells)
    console.print()
    console.print(table)
    _print_unequal_devices(outcomes, console)


def print_verdict(verdict: Verdict, console: Console) -> None:
    """Print the verdict's sentence, and where to look if the sides diverge."""

    def shown(text: str) -> str:
        """Escape a record's text: nothing in it may act as rich markup or as a terminal command."""
        return escape("\n".join(visible(line, console.encoding) for line in text.split("\n")))

    console.print(f"[{STYLES[verdict.status]}]{verdict.status}[/]  {shown(verdict.sentence)}", soft_wrap=True)
    for finding in verdict.findings[1:]:
        console.print(f"  also: {shown(finding.why)}", soft_wrap=True)
    for hint in verdict.hints:
        console.print(f"  look at: {shown(hint)}", soft_wrap=True)


def _print_unequal_devices(outcomes: Sequence[Outcome], console: Console) -> None:
    for outcome in outcomes:
        for fact in ("device", "matmul_precision"):
            torch, jax = (record.about.get(fact) for record in (outcome.torch, outcome.jax))
            if torch != jax:
                said = visible(f"torch {torch}, jax {jax}")
                console.print(f"[yellow]note[/]  {outcome.name}: unequal {fact.replace('_', ' ')}: {escape(said)}")


def _both(outcome: Outcome, cell: Callable[[Record], str]) -> str:
    torch, jax = cell(outcome.torch), cell(outcome.jax)
    return escape(visible(f"{torch} / {jax}"))


def _first(verdict: Verdict) -> str:
    if verdict.first is None:
        return "none"
    if verdict.first.step is None:
        return "none: the weights"
    return f"{verdict.first.step}" + (" (evaluation)" if verdict.first.where == "evaluation" else "")


def _largest(differences: Differences) -> str:
    largest = differences.largest()
    return "–" if largest is None else f"{largest[1]:.1e} at step {largest[0]}"


def _share(differences: Differences) -> str:
    shares = [
        value / limit
        for value, limit in zip(differences.values, differences.limits, strict=True)
        if not math.isnan(limit)
    ]
    return "–" if not shares else f"{max(shares):.2g}"


def _strayed(differences: Differences) -> str:
    if not differences.controls or not differences.steps:
        return "–"
    return f"{max(map(max, differences.controls)):.1e} at most ({len(differences.controls)})"


def _weights(outcome: Outcome) -> str:
    if outcome.weights is None:
        return "–"
    return escape(visible(f"{outcome.weights.difference:.1e} ({outcome.weights.where})"))


def _accuracy(record: Record) -> str:
    if not record.evaluations:
        return "–"
    accuracy = next(reversed(record.evaluations.values())).more.get("accuracy")
    return "–" if accuracy is None else f"{accuracy:.4f}"


def _number(value: float | None, spec: str) -> str:
    return "–" if value is None else format(value, spec)
