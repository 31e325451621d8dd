"""The place where the two sides diverge: Flax's values there, and how far a run of torch is from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

import jax.numpy as jnp
import numpy as np

from port.parity.compare.distance import difference
from port.parity.compare.findings import LayerRow, Parting
from port.parity.compare.first_divergence import part_forward
from port.parity.compare.layer_matching import Matched
from port.parity.compare.layers import LayerPairing
from port.parity.compare.mode import Models
from port.parity.compare.mode_result import ModeResult
from port.parity.compare.outputs import match_outputs
from port.parity.diagnose.causes.between import Relation
from port.parity.diagnose.causes.operation import Way
from port.parity.diagnose.causes.rerun import Rerun, rerun
from port.parity.diagnose.rounding import FAR, ROUNDING
from port.parity.sides.calls import Arrays, RecordedCall, is_floating
from port.parity.sides.run import Run


@dataclass(frozen=True)
class Target:
    """Where the two sides diverge in the forward pass of one mode.

    Attributes:
        models: the two models.
        result: the result of the mode.
        parting: the divergence.
        training: the mode.
        limit: the relative difference below which they agree there.
        row: the row of the call that differs; None if they diverge after all layers.
        torch: that call in torch.
        flax: that call in Flax.
        ways: changes of torch's operations, for the causes at earlier places.
        carried: torch's values for Flax variables, for the causes at earlier places.
    """

    models: Models
    result: ModeResult
    parting: Parting
    training: bool
    limit: float
    row: LayerRow | None = None
    torch: RecordedCall | None = None
    flax: RecordedCall | None = None
    ways: Mapping[int, Way] = field(default_factory=dict)
    carried: Arrays = field(default_factory=dict)

    @property
    def match(self) -> Matched | None:
        """The layer on both sides."""
        return None if self.torch is None else self.models.matched[self.torch.path]

    @property
    def pairing(self) -> LayerPairing:
        """The comparison of their layers."""
        assert self.result.pairing is not None
        return self.result.pairing

    def apart(self, rerun: Rerun) -> float:
        """Return how far another run of torch is from Flax's values there."""
        if self.torch is None or self.flax is None:
            return outputs_apart(self.models, rerun.outputs, self.result.outputs[1])
        return inf if rerun.call is None else self._calls_apart(rerun.call, self.flax)

    def residual(self, rerun: Rerun) -> np.ndarray | None:
        """Return Flax's values minus those of another run of torch, flattened, in torch's layout.

        Each array is divided by Flax's largest magnitude, which is the same for every run. None if shapes differ or
        values are not finite.
        """
        parts = []
        for a, b in self._pairs(rerun):
            if a.shape != b.shape or not np.isfinite(a).all() or not np.isfinite(b).all():
                return None
            apart = b.astype(np.float64) - a
            parts.append(apart.ravel() / (float(np.abs(b).max(initial=0.0)) or 1.0))
        return np.concatenate(parts) if parts else None

    def _pairs(self, rerun: Rerun) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the compared arrays, torch's and Flax's, in torch's layout."""
        layout = self.models.layout
        if self.torch is None or self.flax is None or self.match is None:
            ours = match_outputs(rerun.outputs, self.result.outputs[1], layout).in_torchs(self.result.outputs[1])
            return [(rerun.outputs[name], ours[name]) for name in ours]
        if rerun.call is None:
            return []
        pairs = []
        for theirs, ours, is_input in (
            (rerun.call.inputs, self.flax.inputs, True),
            (rerun.call.outputs, self.flax.outputs, False),
        ):
            for place, (a, b) in enumerate(zip(theirs.values(), ours.values(), strict=False)):
                if a.dtype.kind == "f":
                    pairs.append((a, self.match.in_torchs(b, a.shape, layout, place=place if is_input else None)))
        return pairs

    def agrees_with(self, flax: Run, limit: float) -> bool:
        """Whether another run of Flax gives torch's values."""
        if self.torch is None or self.flax is None:
            return outputs_apart(self.models, self.result.outputs[0], flax.outputs) <= limit
        twins = [call for call in flax.calls if call.key == self.flax.key]
        return bool(twins) and self._calls_apart(self.torch, twins[0]) <= limit

    def _calls_apart(self, torch: RecordedCall, flax: RecordedCall) -> float:
        row = self.pairing.row(self.models.matched[torch.path], torch, flax)
        if row.output is None and self.row is not None and self.row.output is not None:
            return inf  # their shapes can no longer be compared
        return max((apart for apart in (row.input, row.output) if apart is not None), default=0.0)

    def arrays(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """torch's and Flax's array where they first differ, in torch's layout: the layer's input, or its output."""
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


def outputs_apart(models: Models, torch: Arrays, flax: Arrays) -> float:
    """Return how far the models' outputs are apart; infinity if they cannot be matched."""
    carried = match_outputs(torch, flax, models.layout).in_torchs(flax)
    return max((difference(torch[name], carried[name]) for name in carried), default=inf)


def target_of(models: Models, result: ModeResult, parting: Parting) -> Target:
    """Return the target of a divergence: the call that differs, and what is compared there."""
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


def behind(target: Target, cause: Relation | Way) -> Target | None:
    """Return the next divergence, once both sides, or neither, have the cause of this one.

    Args:
        target: this place.
        cause: its cause.

    Returns:
        The next target; None if the two then agree, or if that cannot run.
    """
    models, training = target.models, target.training
    ways = {**target.ways, **cause.chosen} if isinstance(cause, Way) else target.ways
    carried = {**target.carried, **cause.carried} if isinstance(cause, Relation) else target.carried
    if (ways, carried) == (target.ways, target.carried):
        return None
    runs = {number: way.run for number, way in ways.items()}
    try:
        torch = rerun(models.torch, models.inputs, training=training, ways=runs, watch=True)
        flax = flax_with(models, carried, training=training)
    except Exception:
        return None  # for example, a changed stride gives later layers inputs of another size
    if outputs_apart(models, torch.outputs, flax.outputs) <= models.limits.forward:
        return None
    alone = {row.layer: row.alone for row in target.result.rows}
    found = target.pairing.rows(Run(torch.outputs, torch.calls), flax)
    rows = [replace(row, alone=alone.get(row.layer)) for row, _, _ in found]
    parting = part_forward(rows, target.parting.mode, models.limits)
    if parting.layer == target.parting.layer:
        return None
    calls = torch.calls, flax.calls
    result = replace(target.result, rows=rows, calls=calls, outputs=(torch.outputs, flax.outputs), partings=[parting])
    return replace(target_of(models, result, parting), ways=ways, carried=carried)


def flax_with(models: Models, carried: Arrays, *, training: bool) -> Run:
    """Run Flax forward with torch's values for some variables, by Flax's paths."""
    dtype = models.torch.precision
    variables = {path: jnp.array(a, dtype if is_floating(a) else a.dtype) for path, a in carried.items()}
    return models.flax.calls_with(variables, models.flax_inputs, training=training)


def _limit(models: Models, result: ModeResult, apart: float) -> float:
    """Return the limit of agreement: float32 computations cannot agree more closely, and are no fault."""
    if result.rounded is not None:
        return FAR * result.rounded[1]
    if apart > FAR * ROUNDING and models.torch.precision == "float64" and models.flax.narrowed(models.flax_inputs):
        return ROUNDING
    return models.limits.forward
