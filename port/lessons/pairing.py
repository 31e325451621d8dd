"""Pairs lines within a stretch of two sources: the best pairing by similarity that keeps the order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from port.lessons.anchors import in_order
from port.lessons.similarity import scores

# The most lines times lines that are weighed at once. A longer stretch is divided, so that any file takes seconds at
# most.
AT_ONCE = 1_000_000

Pairs = list[tuple[int, int]]


def pair_lines(left: Sequence[str], right: Sequence[str]) -> Pairs:
    """Positions of paired lines, rising on both sides. The other lines have no twin."""
    return [pair for piece in _pieces(left, right, range(len(left)), range(len(right))) for pair in piece]


def _pieces(left: Sequence[str], right: Sequence[str], ours: range, theirs: range) -> Iterator[Pairs]:
    """Pair piece by piece: first what is equal at both ends, then what is between."""
    head = _equal(left, right, ours, theirs)
    yield list(zip(ours[:head], theirs[:head], strict=True))
    ours, theirs = ours[head:], theirs[head:]
    tail = _equal(left, right, ours[::-1], theirs[::-1])
    ends = ours[len(ours) - tail :], theirs[len(theirs) - tail :]
    ours, theirs = ours[: len(ours) - tail], theirs[: len(theirs) - tail]
    if len(ours) * len(theirs) <= AT_ONCE:
        places = _best(scores([left[i] for i in ours], [right[j] for j in theirs]))
        yield [(ours[i], theirs[j]) for i, j in places]
    else:
        for part in _divided(left, right, ours, theirs):
            yield from _pieces(left, right, *part)
    yield list(zip(*ends, strict=True))


def _equal(left: Sequence[str], right: Sequence[str], ours: range, theirs: range) -> int:
    """The number of equal lines from the start."""
    pairs = zip(ours, theirs, strict=False)
    return next((n for n, (i, j) in enumerate(pairs) if left[i] != right[j]), min(len(ours), len(theirs)))


def _divided(left: Sequence[str], right: Sequence[str], ours: range, theirs: range) -> Iterator[tuple[range, range]]:
    """Divide a long stretch: before lines that occur once on both sides, or else in the middle."""
    counts = Counter(left[i] for i in ours), Counter(right[j] for j in theirs)
    once = {line for line, count in counts[0].items() if count == counts[1][line] == 1}
    places = [i for i in ours if left[i] in once], [j for j in theirs if right[j] in once]
    cuts = in_order([left[i] for i in places[0]], [right[j] for j in places[1]])
    here = [(places[0][i], places[1][j]) for i, j in cuts]
    here = here or [(ours[len(ours) // 2], theirs[len(theirs) // 2])]
    for i, j in here:
        yield range(ours.start, i), range(theirs.start, j)
        ours, theirs = range(i, ours.stop), range(j, theirs.stop)
    yield ours, theirs


def _best(worth: np.ndarray) -> Pairs:
    """The rising pairs with the largest total score."""
    rows, columns = worth.shape
    total = np.zeros((rows + 1, columns + 1), np.float32)  # of the first i lines and the first j
    for i in range(rows):
        # Line i opposite line j, or without a twin; then, from left to right, line j without one.
        best = np.maximum(total[i, 1:], total[i, :-1] + worth[i])
        total[i + 1, 1:] = np.maximum.accumulate(best)
    pairs = []
    i, j = rows, columns
    while i and j:
        if total[i, j] == total[i - 1, j]:
            i -= 1
        elif total[i, j] == total[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]
