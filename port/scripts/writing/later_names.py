"""Name inputs that have no name in the first step, because a step is watched only from its first batch or model on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from port.scripts.writing.capture import LossPath
from port.scripts.writing.loss_source import LossSource
from port.scripts.writing.path_writer import NOTHING, PathWriter, Said, Varying


def with_later_names(
    source: LossSource, others: Sequence[LossPath], varying: Varying = frozenset(), said: Said = NOTHING
) -> LossSource:
    """The same source, with its inputs' expressions taken from later steps.

    Args:
        source: the source of the first step's path.
        others: the later steps' paths.
        varying: numbers that are inputs.
        said: the script's names for these.
    """
    descriptions = list(source.descriptions)
    for path in others:
        if all(one.get("expression") or "batch" in one for one in descriptions):
            break
        writer = PathWriter(path, varying, said=said)
        writer.statements()
        later = [writer.descriptions.get(name, {}) for name in writer.inputs]
        if len(later) == len(descriptions):
            descriptions = [
                one if one.get("expression") or "batch" in one else {**one, "expression": other.get("expression")}
                for one, other in zip(descriptions, later, strict=True)
            ]
    return replace(source, descriptions=tuple(descriptions))
