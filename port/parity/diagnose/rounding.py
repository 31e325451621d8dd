"""Look past layers whose difference is only float32 rounding, so that they do not hide a larger fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from port.judging import Limits
from port.parity.compare.findings import Finding, LayerRow, Parting
from port.parity.compare.first_divergence import part_backward, part_forward
from port.parity.compare.mode import Models
from port.parity.compare.mode_result import ModeResult

ROUNDING = 1e-5
"""A layer that computes in float32 may be correct up to this relative error: 80 units in the last place, as for a
softmax of large logits."""

FAR = 100.0
"""How many times larger than a layer's rounding another difference must be to count as independent of it."""


def part_beyond_rounding(models: Models, result: ModeResult, *, training: bool) -> None:
    """If the first layer that differs does so only by float32 rounding, find where a far larger difference begins.

    That layer is then reported; the first one is stored in ``result.rounded``.

    Args:
        models: the two models.
        result: the result of one mode, with its partings, which are replaced.
        training: the mode.
    """
    first = result.partings[0] if result.partings else None
    if first is None or not first.layer or first.direction != "forward" or models.torch.precision != "float64":
        return
    own = _own_error(first, result.rows, models.limits)
    if own is None or own > ROUNDING or not _goes_through_float32(models, result, first, training=training):
        return
    # A gradient that is tiny compared to the largest has the rounding error of the largest.
    limits = replace(models.limits, forward=FAR * own, gradient=FAR * own / (models.limits.share or 1.0))
    other = _farther(result.rows, result.findings, first.mode, limits)
    if other is not None:
        result.partings = [other]
        result.rounded = first.layer, own


def narrow_layers(models: Models, result: ModeResult, *, training: bool) -> list[tuple[str, str]]:
    """Return the innermost Flax layers that compute in float32: their paths and classes."""
    narrow = {
        call.path: type(call.layer).__name__
        for call in result.calls[1]
        if models.flax.narrowed_in(call, training=training)
    }
    return [(path, kind) for path, kind in narrow.items() if not any(p.startswith(f"{path}.") for p in narrow)]


def _own_error(first: Parting, rows: Sequence[LayerRow], limits: Limits) -> float | None:
    """Return the first layer's relative difference; its own, if it was run alone."""
    for row in rows:
        if row.layer.partition(" (call ")[0] == first.layer and row.output is not None and row.output > limits.forward:
            return row.alone if first.itself and row.alone is not None else row.output
    return None


def _goes_through_float32(models: Models, result: ModeResult, first: Parting, *, training: bool) -> bool:
    if first.itself is not True:  # the cause lies before it, in code that is not a layer
        return models.flax.narrowed(models.flax_inputs)
    calls = [call for call in result.calls[1] if call.path == first.path.partition(" (call ")[0]]
    return any(models.flax.narrowed_in(call, training=training) for call in calls)


def _farther(rows: Sequence[LayerRow], findings: Sequence[Finding], mode: str, limits: Limits) -> Parting | None:
    """Return where the sides diverge by more than these limits; None if they do not."""
    if any(finding.what == "forward" and finding.difference > limits.forward for finding in findings):
        return part_forward(rows, mode, limits)
    gradients = [finding for finding in findings if finding.what in ("backward", "input gradient")]
    if any(finding.difference > limits.gradient for finding in gradients):
        return part_backward(rows, mode, limits)
    return None
