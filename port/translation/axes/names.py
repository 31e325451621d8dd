"""The names of a model's axes, as the field has them: by what is done along an axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from port.translation.axes.classes import Axis, AxisClasses

Axes = tuple[Axis, ...]
Names = tuple[str | None, ...]

BATCH, LENGTH = "batch", "length"
EMBED, VOCAB, POSITION, CLASSES = "embed", "vocab", "position", "classes"
HEADS, KV, QKV, HEAD_DIM, MLP = "heads", "kv", "qkv", "head_dim", "mlp"
CHANNELS = "channels"
IMAGES = 4
"""Axes of arrays of images: batch, height, width and channels."""


def names_of(
    classes: AxisClasses, weights: Mapping[str, Axes], inputs: Sequence[Axes], outputs: Sequence[Axes]
) -> dict[Axis, str]:
    """A name for each class of axes that has one; by the axis that stands for it.

    An axis along which a table is looked up by what the model is given is ``vocab``, by others ``position``; what the
    table gives is ``embed``, and without a table what most weights have in common. What is cut into heads, along
    which activations meet, is ``heads``; ``kv`` where each serves several of these, ``qkv`` where it is cut into such
    first. What stands between two projections, from ``embed`` and back, is ``mlp``. What convolutions take and give is
    ``channels``, but for what the model is given.

    Args:
        classes: of the axes, followed through the whole computation.
        weights: path → the axes of a parameter.
        inputs: the axes of the arrays that the model is given.
        outputs: of those that it gives.
    """
    names: dict[Axis, str] = {}

    def name(axis: Axis, text: str) -> None:
        if classes.sizes[axis] > 1:
            names.setdefault(classes.of(axis), text)

    for axis, by_inputs in classes.looked_up.items():
        name(axis, VOCAB if by_inputs else POSITION)
    embed = _embed(classes, weights)
    given = {classes.of(axis) for axes in inputs for axis in axes}
    channels = {classes.of(axis) for axis in classes.channels} - given
    if embed is not None:
        name(embed, EMBED)
    elif channels:
        for axis in channels:
            name(axis, CHANNELS)
    else:
        return names
    shared, summed = ({classes.of(axis) for axis in axes} for axes in (classes.shared, classes.summed))
    for axes in inputs:
        for axis, text in zip(axes, (BATCH, LENGTH) if len(axes) < IMAGES else (BATCH,), strict=False):
            name(axis, text)
    heads = shared - names.keys()
    served = {cut[0] for head in heads for cut in classes.cuts_of(head)}
    for axes in weights.values():
        for axis in axes:
            if found := _of_attention(classes, axis, heads, served):
                name(axis, found)
    for axis in summed:
        name(axis, HEAD_DIM)
    into, out = _projections(classes, weights, channels if embed is None else {classes.of(embed)})
    last = {classes.of(axes[-1]) for axes in outputs if axes}
    for axis in out & last:
        name(axis, VOCAB if VOCAB in names.values() else CLASSES)
    for axis in into & out:
        name(axis, MLP)
    for axis in channels:
        name(axis, CHANNELS)
    return names


def _embed(classes: AxisClasses, weights: Mapping[str, Axes]) -> Axis | None:
    """The axis that most of a model's weights have in common: what goes on from layer to layer.

    None where it is most often convolutions that have it: there, each stage of a model has channels of its own.
    """
    tables = {classes.of(axis) for axis in classes.looked_up}
    rows = [axes for axes in weights.values() if len(axes) > 1]
    of_tables = [axis for axes in rows if {*map(classes.of, axes)} & tables for axis in axes]
    for found in (of_tables, [axis for axes in rows for axis in axes]):
        counted = Counter(
            classes.of(axis) for axis in found if classes.of(axis) not in tables and classes.sizes[axis] > 1
        )
        if counted:
            ((most, times),) = counted.most_common(1)
            convolved = sum(classes.of(axis) == most for axis in classes.channels)
            return most if convolved * 2 < times else None
    return None


def _of_attention(classes: AxisClasses, axis: Axis, heads: set[Axis], served: set[Axis]) -> str | None:
    """What an axis is in attention, if it is cut into heads."""
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


def _projections(classes: AxisClasses, weights: Mapping[str, Axes], stream: set[Axis]) -> tuple[set[Axis], set[Axis]]:
    """What is projected to what goes on from layer to layer, and what that is projected to."""
    into, out = set(), set()
    for axes in weights.values():
        if len(axes) == 2:
            before, after = map(classes.of, axes)
            if after in stream:
                into.add(before)
            if before in stream:
                out.add(after)
    return into, out
