"""Flattening: linear layers whose inputs are flattened spatial features, which Flax flattens in another order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import prod

from port.matching.activations import Activations, alike
from port.matching.units import Unit
from port.moves import Shape
from port.parity.sides.run import Run


def flattened_shapes(run: Run, units: Iterable[Unit], shown: Activations) -> dict[str, tuple[Shape, ...]]:
    """Map torch's linear layers to the (channels, *spatial) features that may have been flattened before them.

    A shape that some earlier layer had as input or output comes first; then, for a pooling that is not a layer, the
    shapes that the channels of the last spatial layer leave, closest to its aspect ratio first. A layer has as many
    rows as there are samples; or samples times positions, if some of the spatial axes are kept, as the time is when
    frequencies and channels are flattened. A layer over the channels of every position has no flatten.

    Args:
        run: torch's run.
        units: its units.
        shown: its activations.
    """
    spatial: list[tuple[int, Shape]] = []
    sizes: dict[str, int] = {}
    for place, call in enumerate(run.calls):
        # A layer's input existed before anything inside it was called; it is at most as late as this.
        for array in (*call.inputs.values(), *call.outputs.values()):
            if array.ndim > 2 and array.shape[1] > 1:
                spatial.append((place, tuple(array.shape)))
        first = next(iter(call.inputs.values()), None)
        if call.number == 0 and first is not None:
            sizes[call.path] = first.size
    units = list(units)
    channels = {unit.shapes["weight"][0] for unit in units if unit.family == "conv" and "weight" in unit.shapes}
    found: dict[str, tuple[Shape, ...]] = {}
    linear = [unit for unit in units if unit.family == "linear" and "weight" in unit.shapes]
    for unit in linear:
        inputs, called = unit.shapes["weight"][1], shown.place(unit)
        # Nothing is known of a layer whose call was not observed.
        rows = sizes[unit.path] // inputs if unit.path in sizes else None
        before = [(place, shape) for place, shape in reversed(spatial) if place < called]
        if not before or _is_behind(unit, linear, before[0][0], shown):
            continue
        exact = [flat for _, shape in before for flat in _flattened(shape, rows, channels) if prod(flat) == inputs]
        # The order depends only on the number of channels.
        by_channels = {shape[0]: shape for shape in reversed(exact)}
        samples, *last = before[0][1]
        pooled = _pooled(tuple(last), inputs) if rows in (None, samples) else ()
        found[unit.path] = tuple(by_channels.values()) or pooled
    return {path: shapes for path, shapes in found.items() if shapes}


def _flattened(shape: Shape, rows: int | None, convolved: set[int]) -> Iterator[Shape]:
    """The part of (samples, channels, *spatial) that may be in one row: the channels, with the spatial axes not kept.

    Args:
        shape: an array's shape.
        rows: the rows of the linear layer's input; None if it was not observed.
        convolved: channel counts that convolutions produce; for other ones, such as heads, all or nothing is in a row.
    """
    samples, channels, *spatial = shape
    for count in range(len(spatial), 0, -1):
        for chosen in combinations(range(len(spatial)), count):
            flat = tuple(spatial[axis] for axis in chosen)
            kept = prod(size for axis, size in enumerate(spatial) if axis not in chosen)
            is_whole = kept == 1 and rows in (None, samples)
            if prod(flat) > 1 and (is_whole or (rows == samples * kept and channels in convolved)):
                yield (channels, *flat)


def _is_behind(unit: Unit, linear: list[Unit], last: int, shown: Activations) -> bool:
    """Whether another linear layer was called since the last spatial one, with another input."""
    own = shown.input(unit)
    return any(
        last < shown.place(other) < shown.place(unit) and not alike(shown.input(other), own, 1e-7) for other in linear
    )


def _pooled(shape: Shape, inputs: int) -> tuple[Shape, ...]:
    """The smaller area of the same channels with that many features, closest in aspect ratio."""
    channels, *sizes = shape
    if inputs % channels or inputs == channels or channels == 1:
        return ()
    area = inputs // channels
    if len(sizes) == 1:
        return ((channels, area),) if area <= sizes[0] else ()
    if len(sizes) != 2:
        return ()
    height, width = sizes
    ways = [(h, area // h) for h in range(1, height + 1) if not area % h and area // h <= width]
    ways.sort(key=lambda way: abs(way[0] * width - way[1] * height))
    return tuple((channels, *way) for way in ways[:1])
