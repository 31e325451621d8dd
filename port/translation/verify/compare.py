"""Compare two runs, after mapping Flax's names and layouts to torch's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from port.judging import Compared
from port.mapping import TORCH_ONLY
from port.parity.compare.judge import Judge, Pair
from port.parity.sides.calls import Arrays, largest
from port.parity.sides.run import BUFFERS, GRADIENTS, INPUT_GRADIENTS, OUTPUTS, Run
from port.translation.verify.trained_alike import frozen_alike

if TYPE_CHECKING:
    from port.translation.artifact.written_module import WrittenModule


def compared(theirs: Run, ours: Run, translation: WrittenModule, training: bool, judge: Judge) -> list[Compared]:
    """Compare outputs, gradients (if torch has any) and buffers of two runs; one row each.

    Args:
        theirs: torch's run.
        ours: Flax's run.
        translation: its mapping converts Flax's names and layouts to torch's.
        training: the mode, for the rows' names.
        judge: decides by the limits of torch's run.
    """
    mode = "training" if training else "evaluation"
    if theirs.outputs.keys() != ours.outputs.keys():
        counts = f"{len(ours.outputs)} of them, where the original returns {len(theirs.outputs)}"
        return [Compared(f"{OUTPUTS} in {mode}", np.inf, judge.limits.forward, counts, len(theirs.outputs))]
    outputs = {name: (array, ours.outputs[name]) for name, array in theirs.outputs.items()}
    found = [judge.row(f"{OUTPUTS} in {mode}", OUTPUTS, outputs)]
    if not theirs.no_gradient:
        found.append(compared_gradients(theirs, ours, translation, training, judge))
        into = {
            name: (array, ours.input_gradients.get(name, np.zeros_like(array)))
            for name, array in theirs.input_gradients.items()
        }
        most_into = largest(theirs.input_gradients)
        found.append(judge.row(f"{INPUT_GRADIENTS} in {mode}", INPUT_GRADIENTS, into, most=most_into))
    if not training:
        found.append(frozen_alike(theirs.trained, ours.trained, translation))
    found.append(judge.row(f"{BUFFERS} after {mode}", BUFFERS, _carried(translation, ours.buffers, theirs.buffers)))
    return [replace(row, where=row.where.removeprefix(translation.prefix)) for row in found if row.count]


def compared_gradients(theirs: Run, ours: Run, translation: WrittenModule, training: bool, judge: Judge) -> Compared:
    """Compare the gradients of the parameters that have one in torch's run; for the arguments see `compared`."""
    pairs = _carried(translation, ours.gradients, theirs.gradients)
    pairs = _with_lacking(translation, pairs, theirs.gradients)
    most = largest(theirs.gradients | theirs.let_go)
    row = judge.row(f"{GRADIENTS} in {'training' if training else 'evaluation'}", GRADIENTS, pairs, most=most)
    return replace(row, where=row.where.removeprefix(translation.prefix))


def _carried(translation: WrittenModule, ours: Arrays, theirs: Arrays) -> dict[str, Pair]:
    """Pair torch's arrays with ours, by torch's names."""
    found: dict[str, Pair] = {}
    for entry in translation.mapping.entries:
        names = [f"{translation.prefix}{name}" for name in entry.sources]
        if entry.collection == TORCH_ONLY:
            continue
        if not all(target in ours for target in entry.targets):
            # The generated module lacks it: compare with nan, which never agrees.
            found |= {name: (theirs[name], np.full(theirs[name].shape, np.nan)) for name in names if name in theirs}
            continue
        back = entry.inverse()(tuple(ours[target] for target in entry.targets))
        found |= {name: (theirs[name], array) for name, array in zip(names, back, strict=True) if name in theirs}
    return found


def _with_lacking(translation: WrittenModule, found: dict[str, Pair], theirs: Arrays) -> dict[str, Pair]:
    """Add the parameters that the generated module lacks, with a gradient of zero."""
    entries = [[f"{translation.prefix}{name}" for name in entry.sources] for entry in translation.mapping.entries]
    tied = {name for names in entries if not found.keys().isdisjoint(names) for name in names}
    return found | {
        name: (array, np.zeros_like(array)) for name, array in theirs.items() if name not in found and name not in tied
    }
