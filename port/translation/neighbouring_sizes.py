"""Compare both sides at neighbouring sizes: each argument changed alone, then two at a time."""

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
from port.translation.at_other_settings import ModelAtOtherSettings
from port.translation.frontend.construction.moved_settings import moved_alone, moved_together
from port.translation.frontend.construction.settings import ConfiguredModel, Setting
from port.translation.other_settings import OtherSizes, WrongAt
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.verify import Proof

MOST = 24
"""The most sizes that are tried, however long the time limit is."""
_SEED = 0
"""Seed for the choice of two arguments to change together, and of their values."""


def compare_neighbouring_sizes(
    elsewhere: ModelAtOtherSettings,
    model: ConfiguredModel,
    settings: Sequence[Setting],
    *,
    limit: float,
    expected: float = 0.0,
    tell: Callable[[str], Any] | None = None,
) -> OtherSizes:
    """Compare both sides at as many other sizes as the time allows, up to the first at which they differ.

    Args:
        elsewhere: constructs both sides at other settings.
        model: the original at its own settings.
        settings: the settings to change: each to a neighbouring value that the original accepts, then two at random.
        limit: the time limit in seconds.
        expected: the time in seconds that the comparison at the model's own size took.
        tell: called beforehand with the expected duration, if that is long.
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


def _others(
    elsewhere: ModelAtOtherSettings, model: ConfiguredModel, settings: Sequence[Setting]
) -> Iterator[ConfiguredModel]:
    """Yield the model with each setting changed alone, then with random pairs changed."""
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


def _with(made: OtherSizes, elsewhere: ModelAtOtherSettings, other: ConfiguredModel) -> OtherSizes:
    try:
        proof = elsewhere.proof_around(other)
    except (PortError, AssertionError, CannotKeep) as error:  # no verdict on the written module
        return replace(made, unjudged=(*made.unjudged, (other.named, f"it cannot be translated there: {error}")))
    if proof.status is Status.DIFFER:
        return replace(made, wrong=WrongAt(other.named, tuple(other.moved), _difference(proof)))
    if proof.status is Status.CANNOT_JUDGE:
        why = proof.unjudged or next((str(row) for row in proof.rows if not row.agrees), "nothing was compared")
        return replace(made, unjudged=(*made.unjudged, (other.named, why)))
    return replace(made, proved=(*made.proved, other.named))


def _difference(proof: Proof) -> str:
    row = next((row for row in proof.rows if row.status is Status.DIFFER), None)
    return f"the written module computes something else: {proof.failed or row}"
