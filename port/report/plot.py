"""Draw losses.png: both sides' losses, and below them their relative difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.extras import naming_extras
from port.report.colours import CONTROL, JAX, LIMIT, TORCH, smallest_drawn
from port.training import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@naming_extras("losses.png")
def plot_losses(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw each comparison in its own column, into a PNG file.

    Above: both training losses and the evaluation losses. Below, on a log scale: the relative difference of the loss,
    the band of the controls, and the limit.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(outcomes), 6.5), layout="constrained")
    FigureCanvasAgg(figure)  # draws to a file without a display; the caller's backend is unchanged
    axes: Any = figure.subplots(2, len(outcomes), sharex="col", squeeze=False, height_ratios=[1.2, 1])
    for column, outcome in enumerate(outcomes):
        _draw_losses(axes[0][column], outcome)
        _draw_differences(axes[1][column], outcome)
    temporary = path.with_name(f".{path.stem}.part{path.suffix}")
    figure.savefig(temporary, dpi=120)
    temporary.replace(path)


def _draw_losses(axes: Axes, outcome: Outcome) -> None:
    axes.set_title(f"{outcome.name}: {outcome.verdict.status}", loc="left", fontweight="bold")
    for record, name, colour, width, style in (
        (outcome.torch, "torch", TORCH, 2.6, "-"),
        (outcome.jax, "jax", JAX, 1.0, "-"),
    ):
        steps, losses = _finite(record.steps)
        axes.plot(steps, losses, style, color=colour, linewidth=width, label=f"{name}, training")
        steps, losses = _finite(record.evaluations)
        marker = "o" if name == "torch" else "x"
        axes.plot(steps, losses, marker, color=colour, markersize=5, fillstyle="none", label=f"{name}, test split")
    axes.set_ylabel("loss")
    axes.legend(fontsize="small")
    axes.grid(alpha=0.2)


def _draw_differences(axes: Axes, outcome: Outcome) -> None:
    differences = outcome.verdict.steps
    smallest = smallest_drawn(outcome.verdict.precision)
    steps = differences.steps
    if differences.controls:
        band = [max(values) for values in zip(*differences.controls, strict=True)]
        furthest = _drawable(list(accumulate(band, max)), smallest)
        axes.fill_between(steps, smallest, furthest, color=CONTROL, alpha=0.5, label="controls, furthest so far")
    axes.plot(steps, _drawable(differences.values, smallest), color=JAX, linewidth=1.0, label="|torch − jax| / loss")
    axes.plot(steps, differences.limits, color=LIMIT, linewidth=1.0, linestyle="--", label="limit")
    first = outcome.verdict.first
    if first is not None and first.step is not None:
        axes.axvline(first.step, color=TORCH, linewidth=1.0, label=f"first difference: step {first.step}")
    axes.set_yscale("log")
    axes.set_ylim(bottom=smallest)
    axes.set_xlabel("step")
    axes.set_ylabel("relative difference")
    axes.legend(fontsize="small", loc="lower right")
    axes.grid(alpha=0.2)


def _finite(lines: dict[int, Any]) -> tuple[list[int], list[float]]:
    kept = [(step, line.loss) for step, line in lines.items() if math.isfinite(line.loss)]
    return [step for step, _ in kept], [loss for _, loss in kept]


def _drawable(values: list[float], smallest: float) -> list[float]:
    return [min(max(value, smallest), 1e3) for value in values]
