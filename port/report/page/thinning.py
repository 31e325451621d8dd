"""Choose which points of a long curve to draw: few enough to be fast, and always with the extremes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

Column = Sequence[float | None]


def kept(columns: Sequence[Column], most: int, always: Collection[int] = ()) -> list[int]:
    """Return the indices to draw of columns of equal length, in order: all of them, or about ``most``.

    The columns are cut into equal stretches. In each stretch, every column keeps its smallest value, its largest value
    and its first gap, so that no peak and no gap is lost. The first and last index are always kept. The values drawn
    are the values recorded: nothing is averaged.

    Args:
        columns: values by index; None where there is no number.
        most: how many indices to return; ``always`` and the ends may add to it.
        always: indices to keep in any case.
    """
    length = len(columns[0]) if columns else 0
    if length <= most:
        return list(range(length))
    stretches = max(1, most // (3 * len(columns)))
    places = _kept_of(columns, stretches) | {0, length - 1, *always}
    # Similar columns have their extremes at the same indices: then there is room for more stretches.
    for share in (0.9, 0.6, 0.4):
        more = _kept_of(columns, min(int(share * stretches * most / len(places)), length)) | {0, length - 1, *always}
        if len(places) < len(more) <= most:
            return sorted(more)
    return sorted(places)


def _kept_of(columns: Sequence[Column], stretches: int) -> set[int]:
    length = len(columns[0])
    places: set[int] = set()
    for number in range(stretches):
        stretch = range(number * length // stretches, (number + 1) * length // stretches)
        for column in columns:
            places.update(_extremes(column, stretch))
    return places


def _extremes(column: Column, stretch: range) -> list[int]:
    part = column[stretch.start : stretch.stop]
    there = [value for value in part if value is not None]
    extremes = [part.index(min(there)), part.index(max(there))] if there else []
    gap = [part.index(None)] if len(there) < len(part) else []
    return [stretch.start + place for place in extremes + gap]
