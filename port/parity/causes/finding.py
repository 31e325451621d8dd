"""Why the two models part: the explanations of each place, tried in turn, the simplest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from port.pairs.notes import note
from port.parity.causes.backwards import arriving
from port.parity.causes.between import Relation, relations
from port.parity.causes.buffers import statistics
from port.parity.causes.carried import held
from port.parity.causes.cause import LAYER, Cause
from port.parity.causes.narrow import narrowed
from port.parity.causes.operation import Way
from port.parity.causes.options import options
from port.parity.causes.search import searched
from port.parity.causes.target import Target, target_of
from port.parity.mode import Models
from port.parity.mode_result import ModeResult
from port.parity.report import Finding

Explained = Relation | Way
"""What a family says: both have a kind, a sentence, a remedy and a note."""


def causes_of(
    models: Models, results: Mapping[str, ModeResult], findings: Sequence[Finding], steps: int
) -> tuple[Cause, ...]:
    """The explanations that make the two agree at the layer where they part, in each mode and direction.

    Args:
        models: the two.
        results: of each mode, as compared.
        findings: what differs.
        steps: forward passes before the running statistics were compared.
    """
    found: list[Cause] = []
    for result in results.values():
        for parting in result.partings:
            where = parting.layer, parting.path, parting.mode
            if parting.direction == "forward":
                target = target_of(models, result, parting)
                found += _first(where, [partial(family, target) for family in _FORWARD])
            else:
                found += _first(where, [partial(arriving, result, parting)])
    # Statistics that differ where nothing before them does: what they are updated with is right.
    if not any(finding.what == "forward" for finding in findings):
        keys = {finding.where.partition(" → ")[0] for finding in findings if finding.what == "buffers"}
        for path, match in models.matched.items():
            if any(source in keys for entry in match.entries for source in entry.sources):
                twin = results["training"].flax_layers.get(match.flax.path)
                where = path, match.flax.path, "training"
                found += _first(where, [partial(statistics, models, match, twin, steps)])
    return tuple(_once(found))


def _first(where: tuple[str, str, str], families: list[Callable[[], Iterator[Explained]]]) -> list[Cause]:
    """What the first family says that says anything. A family that fails on what it did not foresee says nothing.

    Args:
        where: torch's path, Flax's, the mode.
        families: what there is to try.
    """
    layer, path, mode = where
    for family in families:
        found: list[Cause] = []
        with suppress(Exception):
            for each in family():
                remedy = each.remedy or (note(each.note).remedy if each.note else "")
                remedy = remedy.replace(LAYER, layer)
                found.append(Cause(each.kind, layer, path, each.why, remedy, each.note, mode))
        if found:
            return found
    return []


def _between(target: Target) -> Iterator[Explained]:
    """What Flax's array there is of torch's."""
    calls = []
    for call in target.result.calls[0]:
        if target.torch is not None and call.key == target.torch.key:
            break
        calls.append(call)
    if target.torch is not None and target.parting.itself is True:
        calls.append(replace(target.torch, output=None))  # what the layer adds to its input may be missing
    for theirs, ours in target.arrays():
        if theirs.dtype.kind in "fiu":
            weights = target.models.torch.weights
            yield from relations(theirs, ours, target.limit, calls=calls, weights=weights)


_FORWARD = (held, options, narrowed, searched, _between)
"""The families of explanations, those that are tried on the fewest runs and say the most first."""


def _once(causes: list[Cause]) -> Iterator[Cause]:
    """Without what a second mode says again of the same layer."""
    told: set[tuple[str, str, str]] = set()
    for cause in causes:
        key = (cause.kind, cause.layer, cause.why)
        if key not in told:
            told.add(key)
            yield cause
