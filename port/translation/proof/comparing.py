"""Both runs side by side: the largest difference of each kind of thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from port.mapping import TORCH_ONLY
from port.parity.distance import difference, largest
from port.translation.proof.frozen import frozen_alike
from port.translation.proof.run import Run
from port.translation.proof.verdict import FLOOR, Compared, Limits

if TYPE_CHECKING:
    from port.translation.translation import Translation


def compared(theirs: Run, ours: Run, translation: Translation, training: bool, limits: Limits) -> list[Compared]:
    """What of both runs was compared; gradients where torch has some.

    Args:
        theirs: torch's run.
        ours: Flax's.
        translation: whose mapping brings Flax's names and layouts to torch's.
        training: the mode, for the rows' names.
        limits: how far apart they may be.
    """
    mode = "training" if training else "evaluation"
    outputs = {f"output {n}": (a, b) for n, (a, b) in enumerate(zip(theirs.outputs, ours.outputs, strict=True))}
    rows = [_row(f"outputs in {mode}", limits.forward, outputs)]
    if not theirs.no_gradient:
        rows += _gradients(theirs, ours, translation, mode, limits)
    if not training:
        rows.append(frozen_alike(theirs.trained, ours.trained, translation))
    buffers = _carried(translation, ours.buffers, theirs.buffers)
    rows.append(_row(f"buffers after {mode}", limits.forward, buffers))
    return [row for row in rows if row.count]


def _gradients(theirs: Run, ours: Run, translation: Translation, mode: str, limits: Limits) -> list[Compared]:
    found = _carried(translation, ours.gradients, theirs.gradients)
    found = _with_lacking(translation, found, theirs.gradients)
    into = {
        name: (array, ours.input_gradients.get(name, np.zeros_like(array)))
        for name, array in theirs.input_gradients.items()
    }
    return [
        _row(f"gradients in {mode}", limits.gradient, found, FLOOR * largest(theirs.gradients)),
        _row(f"gradients of the inputs in {mode}", limits.gradient, into, FLOOR * largest(theirs.input_gradients)),
    ]


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


def _row(what: str, limit: float, pairs: dict[str, Any], scale: float = 0.0) -> Compared:
    worst, where = 0.0, ""
    for name, (theirs, ours) in pairs.items():
        apart = 0.0 if not theirs.any() and not ours.any() else difference(theirs, ours, scale=scale)
        if not apart <= worst:
            worst, where = apart, name
    return Compared(what, float(worst), limit, where, len(pairs))
