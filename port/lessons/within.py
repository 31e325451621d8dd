"""The words in which two lines that are twins differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

WORD = re.compile(r"\w+|\s+|[^\w\s]")
READ = 1000  # characters; of longer lines no words are marked
HALF = 0.5  # lines that share less differ as a whole, and marks in them would only be noise


class Span(NamedTuple):
    """Characters of a line, from ``start`` up to ``stop``, exclusive."""

    start: int
    stop: int


def words_apart(left: str, right: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The words of each line that the other lacks; nothing for lines that are equal, or that share little."""
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
    """The stretches of words outside the matched ones, in characters, without spaces at their ends."""
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    spans = []
    start = 0
    for block in matched:  # the last is empty and at the end
        first, last = start, block.start
        while first < last and words[first].isspace():
            first += 1
        while first < last and words[last - 1].isspace():
            last -= 1
        if first < last:
            spans.append(Span(places[first], places[last]))
        start = block.stop
    return tuple(spans)
