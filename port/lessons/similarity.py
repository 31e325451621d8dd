"""Scores the similarity of lines by the words that they share."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

WORD = re.compile(r"[^\W\d_]+|\d+")  # cross_entropy2: cross, entropy and 2
READ = 1000  # characters of a line; what is alike, or unlike, so far is taken to be so beyond
ALIKE = 0.35  # lines that share less do not count as similar
# A pair's worth: equal lines count more than lines of the same words, and empty ones next to nothing, so that they
# never keep other lines apart.
EQUAL, PUNCTUATION, EMPTY = 1.25, 0.2, 0.05


def scores(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """Score each pair of lines: 0 if they are not alike, (len(left), len(right))."""
    words = [_words(line) for line in left], [_words(line) for line in right]
    shared = np.zeros((len(left), len(right)), np.float32)
    holding = _holding(words[0]), _holding(words[1])
    for word in holding[0].keys() & holding[1].keys():
        shared[np.ix_(holding[0][word], holding[1][word])] += 1
    sizes = (np.array([max(len(line), 1) for line in side], np.float32) for side in words)
    alike = 2 * shared / np.add.outer(*sizes)
    alike[alike < ALIKE] = 0
    # Squared: one good pair is better than two poor ones.
    worth = np.minimum.outer(_worth(left, words[0]), _worth(right, words[1])) * alike**2
    equal = _holding([{line} for line in left]), _holding([{line} for line in right])
    for line in equal[0].keys() & equal[1].keys():
        worth[np.ix_(equal[0][line], equal[1][line])] *= EQUAL
    return worth


def _words(line: str) -> set[str]:
    """The words in lower case; for a line without words, the whole line."""
    start = line[:READ]
    return set(WORD.findall(start.lower())) or {start.strip()}


def _holding(lines: Sequence[set[str]]) -> dict[str, list[int]]:
    """The positions of each word."""
    places = defaultdict(list)
    for place, words in enumerate(lines):
        for word in words:
            places[word].append(place)
    return places


def _worth(lines: Sequence[str], words: Sequence[set[str]]) -> np.ndarray:
    def worth(line: str, its: set[str]) -> float:
        if not line.strip():
            return EMPTY
        return 1.0 if any(map(WORD.match, its)) else PUNCTUATION

    return np.array([worth(*pair) for pair in zip(lines, words, strict=True)], np.float32)
