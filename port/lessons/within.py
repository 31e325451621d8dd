"""What two lines that are twins say otherwise: the words in which they differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

WORD = re.compile(r"\w+|\s+|[^\w\s]")
READ = 1000  # characters; of longer lines no words are marked
HALF = 0.5  # lines that share less are other lines as a whole, and marks in them would only be noise


class Span(NamedTuple):
    """Characters of a line, from ``start`` until before ``stop``."""

    start: int
    stop: int


def words_apart(left: str, right: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Where each line has words that the other has not; nothing for lines that are equal, or that share little."""
    if left == right or max(len(left), len(right)) > READ:
        return (), ()
    ours, theirs = WORD.findall(left), WORD.findall(right)
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    blocks = matcher.get_matching_blocks()
    shared = sum(len(word) for block in blocks for word in ours[block.a : block.a + block.size] if not word.isspace())
    said = max(sum(len(word) for word in words if not word.isspace()) for words in (ours, theirs))
    if shared < HALF * said:
        return (), ()
    return (
        _outside(ours, [range(block.a, block.a + block.size) for block in blocks]),
        _outside(theirs, [range(block.b, block.b + block.size) for block in blocks]),
    )


def _outside(words: Sequence[str], matched: Sequence[range]) -> tuple[Span, ...]:
    """The stretches of words that stand in no matched one, in characters, without blanks at their ends."""
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    spans = []
    start = 0
    for block in matched:  # the last is empty and stands at the end
        first, last = start, block.start
        while first < last and words[first].isspace():
            first += 1
        while first < last and words[last - 1].isspace():
            last -= 1
        if first < last:
            spans.append(Span(places[first], places[last]))
        start = block.stop
    return tuple(spans)
