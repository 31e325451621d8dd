"""Options of Flax's layer that torch has no counterpart for, tested on the layer."""

from __future__ import annotations

from collections.abc import Iterator

from port.parity.diagnose.causes.between import Relation
from port.parity.diagnose.causes.target import Target

_TRIED = {
    "use_fast_variance": (
        False,
        "fast-variance",
        "use_fast_variance=True computes the variance as E[x²] − E[x]²; torch takes two passes",
    ),
}
"""Flax's option → torch's value, the cause's kind, its sentence."""


def options(target: Target) -> Iterator[Relation]:
    """Yield the options with which Flax's layer, run alone on torch's input, agrees."""
    if target.torch is None or target.flax is None or target.match is None:
        return
    models, alone = target.models, target.row.alone if target.row is not None else None
    if alone is None or alone <= target.limit:
        return  # the layer itself is correct
    for option, (value, kind, why) in _TRIED.items():
        if getattr(target.flax.layer, option, value) == value:
            continue
        changed = models.flax.with_option(target.flax, option, value)
        sides = models.torch, changed
        apart, _ = target.pairing.alone(target.match, target.torch, target.flax, sides, training=target.training)
        if apart is not None and apart <= target.limit:
            yield Relation(kind, why, "")
