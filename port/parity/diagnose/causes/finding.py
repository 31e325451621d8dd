"""Find the causes of the divergences: at each place, try explanations in turn, the simplest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from port.pairs.notes import note
from port.parity.compare.distance import difference
from port.parity.compare.findings import Finding
from port.parity.compare.mode import Models
from port.parity.compare.mode_result import ModeResult
from port.parity.diagnose.causes.backwards import arriving
from port.parity.diagnose.causes.between import Relation, relations
from port.parity.diagnose.causes.buffers import statistics
from port.parity.diagnose.causes.carried import held
from port.parity.diagnose.causes.cause import LAYER, Cause
from port.parity.diagnose.causes.citing import note_of
from port.parity.diagnose.causes.kinks import other_gradients
from port.parity.diagnose.causes.narrow import narrowed
from port.parity.diagnose.causes.operation import Way
from port.parity.diagnose.causes.options import options
from port.parity.diagnose.causes.search import Search
from port.parity.diagnose.causes.structure import ties, unpaired
from port.parity.diagnose.causes.target import Target, behind, target_of

Explained = Relation | Way
"""The result of an explanation: both types have a kind, a sentence, a remedy, and the pairs' cited notes."""
MOST_PLACES = 3
"""The most places, one after the other, at which causes are searched."""


def causes_of(
    models: Models, results: Mapping[str, ModeResult], findings: Sequence[Finding], steps: int
) -> tuple[Cause, ...]:
    """Find the explanations that make the two agree at each divergence, in each mode and direction.

    Args:
        models: the two models.
        results: the results of each mode.
        findings: the differences.
        steps: forward passes before the running statistics were compared.
    """
    found: list[Cause] = []
    searched = Searched()
    for result in results.values():
        for parting in result.partings:
            if parting.direction == "forward":
                found += _forward(target_of(models, result, parting), searched)
            else:
                families = [partial(arriving, result, parting), partial(other_gradients, models, result, parting)]
                found += _as_causes(_first(families), parting.layer, parting.path, parting.mode)
    # Statistics that differ although nothing before them does: their inputs are correct.
    if not any(finding.what == "forward" for finding in findings):
        keys = {finding.where.partition(" → ")[0] for finding in findings if finding.what == "buffers"}
        for path, match in models.matched.items():
            if any(source in keys for entry in match.entries for source in entry.sources):
                twin = results["training"].flax_layers.get(match.flax.path)
                explained = _first([partial(statistics, models, match, twin, steps)])
                found += _as_causes(explained, path, match.flax.path, "training")
    for torch, flax, said in (*ties(models), *unpaired(models, findings)):
        # Skip a cause that was already found by testing.
        if (said.kind, torch) not in {(cause.kind, cause.layer) for cause in found}:
            found += _as_causes([said], torch, flax, "")
    return tuple(_once(found))


@dataclass
class Searched:
    """What was searched in one mode, so that a mode with the same divergences need not repeat it.

    Attributes:
        ways: the ways that were found.
        vain: places where nothing was found: torch's path of the layer, and whether the layer itself is at fault.
    """

    ways: list[Way] = field(default_factory=list)
    vain: set[tuple[str, bool | None]] = field(default_factory=set)


def _forward(target: Target, searched: Searched) -> list[Cause]:
    """Return the causes at one place and at the places after it, which appear once torch's side imitates Flax's."""
    found: list[Cause] = []
    at: Target | None = target
    explained: list[Explained] = []
    for _ in range(MOST_PLACES):
        if at is None:
            break
        before = [each for each in explained if isinstance(each, Way)]
        search, place = Search(at), (at.parting.layer, at.parting.itself)
        families: list[Callable[[], Iterator[Explained]]] = [
            partial(held, at),
            partial(options, at),
            partial(narrowed, at),
            partial(search.again, searched.ways),
            partial(search.alike, before),
        ]
        between: Callable[[], Iterator[Explained]] = partial(_between, at)
        searches: list[Callable[[], Iterator[Explained]]] = [between]
        if place not in searched.vain:
            searches = [search.alone, between, search.together, search.general, search.further, search.together]
            searches.append(search.elsewhere)
        explained = _first([*families, *searches])
        searched.ways += [each for each in explained if isinstance(each, Way) and each.chosen]
        if not explained:
            searched.vain.add(place)
        found += _as_causes(explained, at.parting.layer, at.parting.path, at.parting.mode)
        at = behind(at, explained[0]) if explained else None
    return found


def _first(families: Sequence[Callable[[], Iterator[Explained]]]) -> list[Explained]:
    """Return the explanations of the first family that yields any.

    Families that need few runs and explain most come first. The explanations that a family yields before it raises
    count.
    """
    for family in families:
        found: list[Explained] = []
        with suppress(Exception):
            for each in family():
                found.append(each)
        if found:
            return found
    return []


def _as_causes(explained: Sequence[Explained], layer: str, path: str, mode: str) -> Iterator[Cause]:
    """Yield explanations as causes of one layer (torch's path and Flax's) in one mode."""
    for each in explained:
        id = note_of(each.kind, each.cites)
        remedy = each.remedy or (note(id).remedy if id else "")
        why = each.why + (each.where if isinstance(each, Way) else "")
        yield Cause(each.kind, layer, path, why, remedy.replace(LAYER, layer), id, mode)


def _between(target: Target) -> Iterator[Explained]:
    """Yield how Flax's array there derives from torch's."""
    calls = []
    for call in target.result.calls[0]:
        if target.torch is not None and call.key == target.torch.key:
            break
        calls.append(call)
    if target.torch is not None and target.parting.itself is True:
        calls.append(replace(target.torch, output=None))  # the layer's addition to its input may be missing
    for theirs, ours in target.arrays():
        # Other inputs than the one that differs say nothing.
        if theirs.dtype.kind in "fiu" and not difference(theirs, ours) <= target.limit:
            weights = target.models.torch.weights
            yield from relations(theirs, ours, target.limit, calls=calls, weights=weights)


def _once(causes: list[Cause]) -> Iterator[Cause]:
    """Yield the causes without those that a second mode repeats for the same layer."""
    seen: set[tuple[str, str, str]] = set()
    for cause in causes:
        key = (cause.kind, cause.layer, cause.why)
        if key not in seen:
            seen.add(key)
            yield cause
