"""Name a model's axes with the field's words, by the operations along them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import gcd

from port.translation.axes.classes import Axis, AxisClasses

Axes = tuple[Axis, ...]
Names = tuple[str | None, ...]

BATCH, LENGTH = "batch", "length"
EMBED, VOCAB, POSITION, CLASSES = "embed", "vocab", "position", "classes"
HEADS, KV, QKV, HEAD_DIM, MLP = "heads", "kv", "qkv", "head_dim", "mlp"
GATES, HIDDEN = "gates", "hidden"
CHANNELS = "channels"
IMAGES = 4
"""Axes of arrays of images: batch, height, width and channels."""


def names_of(
    classes: AxisClasses, weights: Mapping[str, Axes], inputs: Sequence[Axes], outputs: Sequence[Axes]
) -> dict[Axis, str]:
    """Return the names of classes of axes, by their representatives.

    - ``vocab``: rows of a table that the inputs look up; ``position``: rows that other indices look up.
    - ``embed``: columns of these tables, or without a table the axis that most weights share.
    - ``heads``: an axis split into heads, the batch axes of products of activations; ``kv``: the same with fewer
      heads, each for several of queries; ``qkv``: an axis split into such axes first; ``head_dim``: one head's width.
    - ``gates``: an axis split into even parts that are combined element by element, as an LSTM's; ``hidden``: such a
      part, and the state of a recurrence.
    - ``mlp``: an axis between two projections, from ``embed`` and back.
    - ``vocab`` or ``classes``: an axis of the outputs that ``embed`` is projected to.
    - ``channels``: input and output channels of convolutions, but for the model's inputs.

    Args:
        classes: the classes of all axes of the computation.
        weights: path → the axes of a parameter.
        inputs: the axes of the model's inputs.
        outputs: the axes of its outputs.
    """
    names: dict[Axis, str] = {}

    def name(axis: Axis, text: str) -> None:
        if classes.sizes[axis] > 1:
            names.setdefault(classes.of(axis), text)

    for axis, by_inputs in classes.looked_up.items():
        name(axis, VOCAB if by_inputs else POSITION)
    gates = _gates(classes, weights)
    embed = _embed(classes, weights, gates)
    channels = _of(classes, classes.channels) - _of(classes, (axis for axes in inputs for axis in axes))
    if embed is not None:
        name(embed, EMBED)
    elif channels:
        for axis in channels:
            name(axis, CHANNELS)
    else:
        return names
    features = _of(classes, {axis for taken, _ in classes.products for axis in taken})
    for axes in inputs:
        for axis, text in zip(axes, (BATCH, LENGTH) if len(axes) < IMAGES else (BATCH,), strict=False):
            if text == BATCH or classes.of(axis) not in features:
                name(axis, text)
    heads = _of(classes, classes.shared) - names.keys()
    served = {cut[0] for head in heads for cut in classes.cuts_of(head)}
    for axes in weights.values():
        for axis in axes:
            if found := _of_attention(classes, axis, heads, served):
                name(axis, found)
    for axis in classes.summed:
        name(axis, HEAD_DIM)
    hidden = _hidden(classes, weights, gates)
    for axis in gates:
        name(axis, GATES)
    for axis in hidden:
        name(axis, HIDDEN)
    into, out = _projections(classes, weights, (channels if embed is None else {classes.of(embed)}) | hidden)
    last = {classes.of(axes[-1]) for axes in outputs if axes}
    for axis in out & last:
        name(axis, VOCAB if VOCAB in names.values() else CLASSES)
    for axis in into & out:
        name(axis, MLP)
    for axis in channels:
        name(axis, CHANNELS)
    return names


def head_counts(classes: AxisClasses, weights: Mapping[str, Axes], names: Mapping[Axis, str]) -> dict[str, int]:
    """Return the number of heads along ``heads`` and ``kv``: of several layers, the greatest common divisor."""
    counts: dict[str, int] = {}
    for axes in weights.values():
        for axis in axes:
            name = names.get(classes.of(axis))
            if name in (HEADS, KV):
                for cut in classes.cuts_of(axis):
                    counts[name] = gcd(counts.get(name, 0), classes.sizes[cut[0]])
    return counts


def _of(classes: AxisClasses, axes: Iterator[Axis] | set[Axis]) -> set[Axis]:
    return {classes.of(axis) for axis in axes}


def _embed(classes: AxisClasses, weights: Mapping[str, Axes], gates: Mapping[Axis, Axis]) -> Axis | None:
    """Return the axis that most weights share, that of the residual stream; None if it is mostly convolutions'.

    In a convolutional model each stage has channels of its own.
    """
    tables = _of(classes, {*classes.looked_up})
    matrices = [axes for axes in weights.values() if len(axes) > 1]
    of_tables = [axis for axes in matrices if {*map(classes.of, axes)} & tables for axis in axes]
    for found in (of_tables, [axis for axes in matrices for axis in axes]):
        counted = Counter(
            own
            for own, size in ((classes.of(axis), classes.sizes[axis]) for axis in found)
            if own not in tables and own not in gates and size > 1
        )
        if counted:
            ((most, times),) = counted.most_common(1)
            convolved = sum(classes.of(axis) == most for axis in classes.channels)
            return most if convolved * 2 < times else None
    return None


def _of_attention(classes: AxisClasses, axis: Axis, heads: set[Axis], served: set[Axis]) -> str | None:
    """Return the name of an axis that is split into heads, None for any other."""
    for cut in classes.cuts_of(axis):
        if cut[0] in heads:
            return HEADS
        if cut[0] in served:
            return KV
        if {*cut} & heads:
            return QKV
    if any(_of_attention(classes, part, heads, served) for part in classes.parts_of(axis)):
        return QKV
    return None


def _gates(classes: AxisClasses, weights: Mapping[str, Axes]) -> dict[Axis, Axis]:
    """Return the axes of weights that are split into gates, each with the axis of one gate."""
    axes = {classes.of(axis): axis for axes in weights.values() for axis in axes}
    found = ((own, classes.gated_part_of(axis)) for own, axis in axes.items())
    return {own: part for own, part in found if part is not None}


def _hidden(classes: AxisClasses, weights: Mapping[str, Axes], gates: Mapping[Axis, Axis]) -> set[Axis]:
    """Return the axes of single gates and of recurrent states.

    A state's own projection leads from it back to it, or to its gates. An LSTM may project its cell's state to a
    smaller one, which leads to the gates. The states of two directions are concatenated.
    """
    pairs = {tuple(map(classes.of, axes)) for axes in weights.values() if len(axes) == 2}
    sides = {*pairs, *((other, one) for one, other in pairs)}
    projected = {
        state for rows, part in gates.items() for one, state in sides if one == rows and (part, state) in sides
    }
    states = {*gates.values(), *(one for one, other in pairs if one == other), *projected}
    return states | {axis for axis, parts in classes.joinings().items() if {*parts} <= states}


def _projections(classes: AxisClasses, weights: Mapping[str, Axes], stream: set[Axis]) -> tuple[set[Axis], set[Axis]]:
    """Return the axes that are projected to the stream, and those that the stream is projected to."""
    pairs = [((axes[0],), (axes[1],)) for axes in weights.values() if len(axes) == 2]
    into: set[Axis] = set()
    out: set[Axis] = set()
    for taken, made in [*pairs, *classes.products]:
        before, after = (_of(classes, {*axes}) for axes in (taken, made))
        if after & stream:
            into |= before
        if before & stream:
            out |= after
    return into, out
