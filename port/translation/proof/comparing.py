"""Both runs side by side: the largest difference of each kind of thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from port.judging import Limits
from port.mapping import TORCH_ONLY
from port.parity.control import Control
from port.parity.distance import difference, largest
from port.translation.proof.frozen import frozen_alike
from port.translation.proof.run import BUFFERS, GRADIENTS, INPUT_GRADIENTS, OUTPUTS, Run
from port.translation.proof.verdict import Compared

if TYPE_CHECKING:
    from port.translation.translation import Translation


def compared(
    theirs: Run, ours: Run, translation: Translation, training: bool, limits: Limits, control: Control
) -> list[Compared]:
    """What of both runs was compared; gradients where torch has some.

    Args:
        theirs: torch's run.
        ours: Flax's.
        translation: whose mapping brings Flax's names and layouts to torch's.
        training: the mode, for the rows' names.
        limits: how far apart they may be.
        control: of torch's run.
    """
    rows = _Rows(control, limits, translation.prefix)
    mode = "training" if training else "evaluation"
    outputs = {f"output {n}": (a, b) for n, (a, b) in enumerate(zip(theirs.outputs, ours.outputs, strict=True))}
    found = [rows.of(f"{OUTPUTS} in {mode}", OUTPUTS, outputs)]
    if not theirs.no_gradient:
        gradients = _carried(translation, ours.gradients, theirs.gradients)
        gradients = _with_lacking(translation, gradients, theirs.gradients)
        into = {
            name: (array, ours.input_gradients.get(name, np.zeros_like(array)))
            for name, array in theirs.input_gradients.items()
        }
        found.append(rows.of(f"{GRADIENTS} in {mode}", GRADIENTS, gradients, largest(theirs.gradients)))
        found.append(rows.of(f"{INPUT_GRADIENTS} in {mode}", INPUT_GRADIENTS, into, largest(theirs.input_gradients)))
    if not training:
        found.append(frozen_alike(theirs.trained, ours.trained, translation))
    buffers = _carried(translation, ours.buffers, theirs.buffers)
    found.append(rows.of(f"{BUFFERS} after {mode}", BUFFERS, buffers))
    return [row for row in found if row.count]


def outputs_compared(
    theirs: list[np.ndarray], ours: list[np.ndarray], what: str, limits: Limits, control: Control
) -> Compared:
    """The outputs alone; arguments as of `compared`, and the row's name."""
    pairs = {f"output {n}": (a, b) for n, (a, b) in enumerate(zip(theirs, ours, strict=True))}
    return _Rows(control, limits).of(what, OUTPUTS, pairs)


def _carried(translation: Translation, ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Pairs of torch's arrays and ours, brought to torch's names."""
    found = {}
    for entry in translation.mapping.entries:
        if entry.collection == TORCH_ONLY:
            continue
        if not all(target in ours for target in entry.targets):
            # The written module lacks it: nothing is as it should be.
            for name in entry.sources:
                lacking = theirs.get(f"{translation.prefix}{name}")
                if lacking is not None:
                    found[name] = (lacking, np.full(lacking.shape, np.nan))
            continue
        back = entry.inverse()(tuple(ours[target] for target in entry.targets))
        for name, array in zip(entry.sources, back, strict=True):
            if (full := f"{translation.prefix}{name}") in theirs:
                found[name] = (theirs[full], array)
    return found


def _with_lacking(translation: Translation, found: dict[str, Any], theirs: dict[str, np.ndarray]) -> dict[str, Any]:
    """With the parameters that the written module lacks: it is as if their gradient were zero."""
    lacking = {name.removeprefix(translation.prefix): array for name, array in theirs.items()}
    tied = {name for entry in translation.mapping.entries for name in entry.sources if set(entry.sources) & set(found)}
    return found | {
        name: (array, np.zeros_like(array)) for name, array in lacking.items() if name not in found and name not in tied
    }


@dataclass(frozen=True)
class _Rows:
    """Pairs of arrays judged: by their limits, and by the control what is beyond them.

    Attributes:
        control: of torch's run.
        limits: how far apart two arrays may be.
        prefix: what the names of torch's own run begin with, and those of the pairs do not.
    """

    control: Control
    limits: Limits
    prefix: str = ""

    def of(self, what: str, kind: str, pairs: dict[str, Any], most: float = 0.0) -> Compared:
        """One kind of thing.

        Args:
            what: the row's name.
            kind: as the control has it.
            pairs: torch's array and ours, by name.
            most: the largest magnitude of a gradient; 0 of what is none.
        """
        is_gradient = kind in (GRADIENTS, INPUT_GRADIENTS)
        limit, scale = (self.limits.gradient if is_gradient else self.limits.forward), self.limits.share * most
        worst, where, rounded, unjudged = 0.0, "", 0, ""
        for name, (theirs, ours) in pairs.items():
            apart = 0.0 if not theirs.any() and not ours.any() else difference(theirs, ours, scale=scale)
            if not apart <= limit:
                full = name if kind in (OUTPUTS, INPUT_GRADIENTS) else f"{self.prefix}{name}"
                judged = self.control.judge(kind, full, ours, limit)
                if judged.is_rounding or judged.why:
                    rounded += judged.is_rounding
                    unjudged = unjudged or judged.why
                    continue
            if not apart <= worst:
                worst, where = apart, name
        return Compared(what, float(worst), limit, where, len(pairs), rounded, unjudged)
