"""Convert Flax's gradients to torch's names and layouts."""

from __future__ import annotations

import numpy as np

from port.mapping import Entry, Mapping
from port.moves import Addends, Branch, Copy, EachBranch, Move, Sum, Tie
from port.parity.sides.calls import Arrays


def gradients_in_torchs(mapping: Mapping, gradients: Arrays) -> Arrays:
    """Carry gradients back through a mapping.

    Values move by M, so gradients move back by its transpose. Reordering moves are their own inverse's transpose; of a
    sum, each addend gets the whole gradient; of a copy, the original gets the sum of its copies'.

    Args:
        mapping: from torch's keys to Flax's paths.
        gradients: gradients by Flax's paths.

    Returns:
        gradients by torch's keys; a tied weight's under each of its names.
    """
    carried: Arrays = {}
    for entry in mapping.entries:
        if all(target in gradients for target in entry.targets):
            arrays = tuple(gradients[target] for target in entry.targets)
            for move in reversed(entry.moves):
                arrays = transposed(move)(arrays)
            carried.update(zip(entry.sources, arrays, strict=True))
    return carried


def gathered(mapping: Mapping, gradients: Arrays, tied: dict[str, str]) -> Arrays:
    """Sum torch's gradients of tensors that torch trains separately but Flax holds as one.

    Args:
        mapping: from torch's keys to Flax's paths.
        gradients: gradients by torch's keys, a tied weight's under each of its names.
        tied: torch's name → the earlier name of the same tensor.
    """
    result = dict(gradients)
    for entry in mapping.entries:
        if entry.is_tied and all(source in gradients for source in entry.sources):
            total = np.sum([gradients[source] for source in entry.sources if source not in tied], axis=0)
            result.update(dict.fromkeys(entry.sources, total))
    return result


def untied(entry: Entry, tied: dict[str, str]) -> str | None:
    """A message on tensors tied on one side only; None if both sides agree."""
    apart = [source for source in entry.sources if source not in tied]
    if entry.is_tied and len(apart) > 1:
        return f"{', '.join(apart)} are tensors of their own in torch, and one in Flax, {', '.join(entry.targets)}"
    if entry.is_tied and any(isinstance(move, Copy) for move in entry.moves):
        paths = ", ".join(entry.targets)
        return f"one tensor in torch, under the names {', '.join(entry.sources)}; in Flax tensors of their own, {paths}"
    return None


def transposed(move: Move) -> Move:
    """The move whose matrix is the transpose of a move's."""
    if isinstance(move, Sum | Tie):
        return Copy(move.count)
    if isinstance(move, Copy | Addends):
        return Sum(move.count)
    if isinstance(move, EachBranch):
        return EachBranch(tuple(_transposed(branch) for branch in move.branches))
    return move.inverse()


def _transposed(branch: Branch) -> Branch:
    return Branch(branch.gives, tuple(transposed(move) for move in reversed(branch.moves)), branch.takes)
