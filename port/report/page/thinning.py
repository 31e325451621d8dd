"""Which points of a long curve are drawn: few enough to be quick, and never without an extreme."""

from __future__ import annotations

from collections.abc import Collection, Sequence

Column = Sequence[float | None]


def kept(columns: Sequence[Column], most: int, always: Collection[int] = ()) -> list[int]:
    """The places that are drawn of columns of one length, in order: all of them, or some ``most``.

    The columns are cut into equal stretches. Of each, every column keeps where it is smallest, where it is largest and
    where it first has no number, so that no peak and no gap is lost; and the first and the last place of all are kept.
    What is drawn is what was recorded: nothing is averaged.

    Args:
        columns: values by place; None where there is no number.
        most: how many places may be drawn; ``always`` and the ends may add to it.
        always: places that are kept whatever stands there.
    """
    length = len(columns[0]) if columns else 0
    if length <= most:
        return list(range(length))
    stretches = max(1, most // (3 * len(columns)))
    places = _kept_of(columns, stretches) | {0, length - 1, *always}
    # Columns that are much alike have their extremes at the same places: then there is room for more stretches.
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
