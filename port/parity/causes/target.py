"""The place where the two sides part: what Flax has there, and how far something else of torch's is from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from port.parity.calls import Arrays, Call
from port.parity.causes.rerun import Rerun
from port.parity.distance import difference
from port.parity.layers import LayerPairing
from port.parity.matching import Matched
from port.parity.mode import Models
from port.parity.mode_result import ModeResult
from port.parity.outputs import match_outputs
from port.parity.report import LayerRow, Parting
from port.parity.rounding import FAR, ROUNDING
from port.parity.run import Run


@dataclass(frozen=True)
class Target:
    """Where the two sides part in one mode, forward.

    Attributes:
        models: the two.
        result: of the mode.
        parting: where.
        training: the mode.
        limit: the relative difference up to which they agree there.
        row: of the call that parts; None where they part after all layers.
        torch: that call on torch's side.
        flax: on Flax's.
    """

    models: Models
    result: ModeResult
    parting: Parting
    training: bool
    limit: float
    row: LayerRow | None = None
    torch: Call | None = None
    flax: Call | None = None

    @property
    def match(self) -> Matched | None:
        """The layer on both sides."""
        return None if self.torch is None else self.models.matched[self.torch.path]

    @property
    def pairing(self) -> LayerPairing:
        """Compares their layers."""
        assert self.result.pairing is not None
        return self.result.pairing

    def agrees(self, rerun: Rerun) -> bool:
        """Whether another run of torch's gives what Flax's gave."""
        if self.torch is None or self.flax is None:
            return self._outputs_agree(rerun.outputs, self.result.outputs[1], self.limit)
        return rerun.call is not None and self._calls_agree(rerun.call, self.flax, self.limit)

    def agrees_with(self, flax: Run, limit: float) -> bool:
        """Whether another run of Flax's gives what torch's gave."""
        if self.torch is None or self.flax is None:
            return self._outputs_agree(self.result.outputs[0], flax.outputs, limit)
        twins = [call for call in flax.calls if call.key == self.flax.key]
        return bool(twins) and self._calls_agree(self.torch, twins[0], limit)

    def _calls_agree(self, torch: Call, flax: Call, limit: float) -> bool:
        row = self.pairing.row(self.models.matched[torch.path], torch, flax)
        return all(apart is None or apart <= limit for apart in (row.input, row.output))

    def _outputs_agree(self, torch: Arrays, flax: Arrays, limit: float) -> bool:
        matched = match_outputs(torch, flax, self.models.layout)
        carried = matched.in_torchs(flax)
        return bool(carried) and all(difference(torch[name], carried[name]) <= limit for name in carried)

    def arrays(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """torch's and Flax's array where they first differ, in torch's layout: of the layer's input, or its output."""
        if self.torch is None or self.flax is None or self.match is None:
            theirs, ours = self.result.outputs
            carried = match_outputs(theirs, ours, self.models.layout).in_torchs(ours)
            return [(theirs[name], carried[name]) for name in carried]
        own = self.parting.itself is True
        theirs, ours = (call.outputs if own else call.inputs for call in (self.torch, self.flax))
        return [
            (a, self.match.in_torchs(b, a.shape, self.models.layout, place=None if own else place))
            for place, (a, b) in enumerate(zip(theirs.values(), ours.values(), strict=False))
        ]


def target_of(models: Models, result: ModeResult, parting: Parting) -> Target:
    """The call that parts, with what is compared there."""
    training = parting.mode == "training"
    theirs, ours = ({call.key: call for call in calls} for calls in result.calls)
    for row in result.rows:
        if row.layer.partition(" (call ")[0] == parting.layer and row.output is not None:
            limit = _limit(models, result, row.output)
            if row.output > limit:
                number = int(row.layer.partition(" (call ")[2].rstrip(")") or 1) - 1
                torch, flax = theirs[f"{parting.layer}#{number}"], ours[f"{parting.path}#{number}"]
                return Target(models, result, parting, training, limit, row, torch, flax)
    return Target(models, result, parting, training, _limit(models, result, float("inf")))


def _limit(models: Models, result: ModeResult, apart: float) -> float:
    """Up to what the two agree: what goes through float32 cannot agree better than that, and is no fault beside it."""
    if result.rounded is not None:
        return FAR * result.rounded[1]
    if apart > FAR * ROUNDING and models.torch.precision == "float64" and models.flax.narrowed(models.flax_inputs):
        return ROUNDING
    return models.limits.forward
