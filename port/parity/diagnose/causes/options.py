"""Options of Flax's own layer, tried on it: what torch has no name for."""

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
"""Flax's option → the value that is torch's, the cause's kind, its sentence."""


def options(target: Target) -> Iterator[Relation]:
    """The options with which Flax's layer, run alone on torch's input, agrees."""
    if target.torch is None or target.flax is None or target.match is None:
        return
    models, alone = target.models, target.row.alone if target.row is not None else None
    if alone is None or alone <= target.limit:
        return  # the layer is right as it is
    for option, (value, kind, why) in _TRIED.items():
        if getattr(target.flax.layer, option, value) == value:
            continue
        changed = models.flax.with_option(target.flax, option, value)
        sides = models.torch, changed
        apart, _ = target.pairing.alone(target.match, target.torch, target.flax, sides, training=target.training)
        if apart is not None and apart <= target.limit:
            yield Relation(kind, why, "")
