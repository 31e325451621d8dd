"""The proof around the size that a model is given at: each argument moved by itself, and then two of them at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from port.errors import PortError
from port.judging import Status
from port.parity.sides.duration import LONG, duration
from port.translation.frontend.construction.moved_settings import moved_alone, moved_together
from port.translation.frontend.construction.settings import ConfiguredModel, Setting
from port.translation.other_settings import OtherSizes, WrongAt
from port.translation.proved_elsewhere import Elsewhere
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.verify import Proof

MOST = 24
"""Sizes that are tried, whatever time there is."""
_SEED = 0
"""Of which two arguments are moved together, and where to."""


def proved_around(
    elsewhere: Elsewhere,
    model: ConfiguredModel,
    settings: Sequence[Setting],
    *,
    limit: float,
    expected: float = 0.0,
    tell: Callable[[str], Any] | None = None,
) -> OtherSizes:
    """Compare both sides at other sizes, as many as the time allows; it ends with the first at which they differ.

    Args:
        elsewhere: constructs both sides there.
        model: the original as it is given.
        settings: that are moved: each to a value beside it that the original takes, then two at a time, at random.
        limit: seconds that it may take.
        expected: seconds that comparing at the given size took.
        tell: is told beforehand how long it may take, if that is long.
    """
    began, longest = time.monotonic(), expected
    made, pairs = OtherSizes(limit=limit), list(combinations(settings, 2))
    planned = min(MOST, len(settings) + min(len(pairs), len(settings)))
    if tell is not None and longest * planned > LONG:
        tell(f"comparing at other sizes takes up to {duration(limit)}")
    others = _others(elsewhere, model, settings)
    for number in range(planned):
        if time.monotonic() - began + longest > limit:
            return replace(made, left=planned - number)
        start = time.monotonic()
        other = next(others, None)
        if other is None:
            break
        made = _with(made, elsewhere, other)
        if made.wrong is not None:
            break
        longest = max(longest, time.monotonic() - start)
    return made


def _others(elsewhere: Elsewhere, model: ConfiguredModel, settings: Sequence[Setting]) -> Iterator[ConfiguredModel]:
    """The model with each setting moved by itself, and then with two, which and where to at random."""
    for setting in settings:
        alone = next(moved_alone(model, setting, elsewhere.original), None)
        if alone is not None:
            yield alone
    drawn = random.Random(_SEED)
    pairs = list(combinations(settings, 2))
    drawn.shuffle(pairs)
    for pair in pairs:
        together = moved_together(model, pair, elsewhere.original, drawn)
        if together is not None:
            yield together


def _with(made: OtherSizes, elsewhere: Elsewhere, other: ConfiguredModel) -> OtherSizes:
    try:
        proof = elsewhere.proof_around(other)
    except (PortError, AssertionError, CannotKeep) as error:  # that says nothing of what was written
        return replace(made, unjudged=(*made.unjudged, (other.named, f"it cannot be translated there: {error}")))
    if proof.status is Status.DIFFER:
        return replace(made, wrong=WrongAt(other.named, tuple(other.moved), _difference(proof)))
    if proof.status is Status.CANNOT_JUDGE:
        why = proof.unjudged or next(str(row) for row in proof.rows if not row.agrees)
        return replace(made, unjudged=(*made.unjudged, (other.named, why)))
    return replace(made, proved=(*made.proved, other.named))


def _difference(proof: Proof) -> str:
    row = next((row for row in proof.rows if row.status is Status.DIFFER), None)
    return f"what was written is another model: {proof.failed or row}"
