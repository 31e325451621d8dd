"""Float32 on the way: a layer whose own error is its rounding does not hide a fault elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from port.judging import Limits
from port.parity.compare.findings import Finding, LayerRow, Parting
from port.parity.compare.first_divergence import part_backward, part_forward
from port.parity.compare.mode import Models
from port.parity.compare.mode_result import ModeResult

ROUNDING = 1e-5
"""Up to this relative error a layer that goes through float32 may be right: 80 units in the last place, as a softmax of
large logits has."""

FAR = 100.0
"""How many times a layer's own rounding another difference has to be, to be no consequence of it."""


def part_beyond_rounding(models: Models, result: ModeResult, *, training: bool) -> None:
    """Where the first layer that differs does so by float32's rounding alone, look for a far larger difference.

    The layer at which that one begins is then the one that is named; the first is written down in ``result.rounded``.

    Args:
        models: the two.
        result: of one mode, with its partings; they are replaced.
        training: the mode.
    """
    first = result.partings[0] if result.partings else None
    if first is None or not first.layer or first.direction != "forward" or models.torch.precision != "float64":
        return
    own = _own_error(first, result.rows, models.limits)
    if own is None or own > ROUNDING or not _goes_through_float32(models, result, first, training=training):
        return
    # A gradient that is next to nothing beside the largest has the rounding of the largest.
    limits = replace(models.limits, forward=FAR * own, gradient=FAR * own / (models.limits.share or 1.0))
    other = _farther(result.rows, result.findings, first.mode, limits)
    if other is not None:
        result.partings = [other]
        result.rounded = first.layer, own


def narrow_layers(models: Models, result: ModeResult, *, training: bool) -> list[tuple[str, str]]:
    """Flax's layers that go from float64 to float32 on the way, the innermost ones: their paths and classes."""
    narrow = {
        call.path: type(call.layer).__name__
        for call in result.calls[1]
        if models.flax.narrowed_in(call, training=training)
    }
    return [(path, kind) for path, kind in narrow.items() if not any(p.startswith(f"{path}.") for p in narrow)]


def _own_error(first: Parting, rows: Sequence[LayerRow], limits: Limits) -> float | None:
    """By how much the first layer differs, of itself where that was seen."""
    for row in rows:
        if row.layer.partition(" (call ")[0] == first.layer and row.output is not None and row.output > limits.forward:
            return row.alone if first.itself and row.alone is not None else row.output
    return None


def _goes_through_float32(models: Models, result: ModeResult, first: Parting, *, training: bool) -> bool:
    if first.itself is not True:  # what is before it has no name: something of the model's
        return models.flax.narrowed(models.flax_inputs)
    calls = [call for call in result.calls[1] if call.path == first.path.partition(" (call ")[0]]
    return any(models.flax.narrowed_in(call, training=training) for call in calls)


def _farther(rows: Sequence[LayerRow], findings: Sequence[Finding], mode: str, limits: Limits) -> Parting | None:
    """Where they part by more than these limits; None where they do not."""
    if any(finding.what == "forward" and finding.difference > limits.forward for finding in findings):
        return part_forward(rows, mode, limits)
    gradients = [finding for finding in findings if finding.what in ("backward", "input gradient")]
    if any(finding.difference > limits.gradient for finding in gradients):
        return part_backward(rows, mode, limits)
    return None
