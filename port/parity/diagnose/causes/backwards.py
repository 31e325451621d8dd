"""Compare the gradients that arrive at the same place in Flax and in torch."""

from __future__ import annotations

from collections.abc import Iterator

from port.parity.compare.distance import difference
from port.parity.compare.findings import Parting
from port.parity.compare.mode_result import ModeResult
from port.parity.diagnose.causes.between import Relation


def arriving(result: ModeResult, parting: Parting) -> Iterator[Relation]:
    """Yield whether Flax's gradient is zero, or torch's times a constant.

    Args:
        result: the result of the mode.
        parting: where the two diverge in the backward pass.
    """
    if parting.itself is not False or result.pairing is None:
        return
    limit = result.pairing.limits.gradient
    match = result.pairing.matched[parting.layer]
    twins = {call.key: call for call in result.calls[1]}
    for call in reversed(result.calls[0]):
        twin = twins.get(f"{parting.path}#{call.number}")
        if call.path != parting.layer or twin is None:
            continue
        for (name, a), b in zip(call.cotangents.items(), twin.cotangents.values(), strict=False):
            b = match.in_torchs(b, a.shape, result.pairing.layout, place=None)
            if a.shape != b.shape or not a.any() or difference(a, b) <= limit:
                continue
            if not b.any():
                why = f"no gradient arrives at its output {name}".rstrip() + " in Flax"
                yield Relation("gradient-stopped", why, "Take jax.lax.stop_gradient out, or detach in torch too.")
                return
            ratio = float((a * b).sum() / (a * a).sum())
            if f"{ratio:.6g}" != "1" and difference(b, ratio * a) <= limit:
                why = f"the gradient that arrives in Flax is torch's times {ratio:.6g}"
                yield Relation("gradient-scale", why, "Look for a scale, or a partly stopped gradient, after it.")
                return
