"""torch's run with its operations done in other ways, one explanation after another, until it gives what Flax gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import combinations, product
from math import inf

from port.parity.diagnose.causes import (
    activations,
    attention,
    functions,
    gated,
    heads,
    kernels,
    losses,
    normalisation,
    parametrized,
    positions,
    recurrent,
    spatial,
    steps,
)
from port.parity.diagnose.causes.between import Relation
from port.parity.diagnose.causes.broad import Chosen, broad
from port.parity.diagnose.causes.candidates import candidates
from port.parity.diagnose.causes.elsewhere import elsewhere
from port.parity.diagnose.causes.operation import Explanation, TorchOperation, Way, having, together
from port.parity.diagnose.causes.rerun import Rerun, rerun
from port.parity.diagnose.causes.target import Target

EXPLANATIONS: tuple[Explanation, ...] = (
    *normalisation.EXPLANATIONS,
    *activations.EXPLANATIONS,
    *kernels.EXPLANATIONS,
    *spatial.EXPLANATIONS,
    *attention.EXPLANATIONS,
    *positions.EXPLANATIONS,
    *heads.EXPLANATIONS,
    *recurrent.EXPLANATIONS,
    *gated.EXPLANATIONS,
    *parametrized.EXPLANATIONS,
    *losses.EXPLANATIONS,
    *steps.EXPLANATIONS,
    *functions.EXPLANATIONS,
)
MOST_RUNS, LEAST_RUNS = 600, 40
"""So many times at most torch's model runs for one place where the two part; and so many where it is large."""
MOST_NUMBERS = 2e9
"""So many numbers at most are given to operations in all of these runs together."""
MOST_EXCHANGED = 6
"""So many linear layers at most, counted back from there, are tried in each other's places."""
MOST_BEGUN = 8
"""So many of the explanations that bring the two nearer are tried with a second one."""


class Search:
    """The ways in which torch's run may be done to give what Flax gave, tried at one place.

    Args:
        target: the place.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._tried: list[tuple[float, Chosen]] = []
        self._paired = 0  # so many of these were tried in pairs
        self._left = 0

    def again(self, told: Sequence[Way]) -> Iterator[Way]:
        """What was told of this place in another mode, where it makes the two agree in this one."""
        self._left = len(told) + 1
        for way in told:
            if self._apart({**way.chosen}) <= self.target.limit:
                yield way
                return

    def alike(self, told: Sequence[Way]) -> Iterator[Way]:
        """The mistakes that were told together at the place before, made here too: by itself neither need be nearer."""
        kinds = dict.fromkeys(way.kind for way in told)
        first = self._first if len(kinds) > 1 else None
        if first is None:
            return
        found: dict[str, list[tuple[int, Way]]] = {kind: [] for kind in kinds}
        for number, way in self._ways(first):
            if way.kind in found:
                found[way.kind].append((number, way))
        self._left = self._most(first)
        for each in product(*found.values()):
            chosen: Chosen = {}
            for number, way in each:
                chosen = _both(chosen, {number: way})
            if self._apart(chosen) <= self.target.limit:
                yield from (_done(way, chosen) for _, way in each)
                return

    def alone(self) -> Iterator[Way]:
        """The known mistakes that make the two agree; all those of the lowest rank that has any."""
        return self._ranked(general=False)

    def general(self) -> Iterator[Way]:
        """A step left out, another function or axis: what may be at any step and is told by one that agrees."""
        return self._ranked(general=True)

    def _ranked(self, *, general: bool) -> Iterator[Way]:
        first = self._first
        if first is None:
            return
        ways = [each for each in self._ways(first) if (each[1].rank >= steps.RANK) is general]
        self._left = most = self._most(first)
        for rank in sorted({way.rank for _, way in ways}):
            groups: dict[tuple[str, str], Chosen] = {}
            for number, way in ways:
                if way.rank == rank:
                    groups.setdefault((way.kind, way.why), {})[number] = way
            found: set[str] = set()
            for (kind, _), group in groups.items():
                # Of what comes to the same, one is told.
                for numbers in _subsets(group) if kind not in found else ():
                    chosen = {number: group[number] for number in numbers}
                    if self._agrees(chosen):
                        yield _done(chosen[numbers[0]], chosen)
                        found.add(kind)
                        break
                if found and general:
                    break  # of what may be anything, one that agrees is enough
            if found:
                return
        for way, chosen in _exchanged(self.target, first) if not general else ():
            if self._agrees(chosen):
                yield _done(way, chosen)
                return
        self._left = most  # for pairs of them

    def _ways(self, first: Rerun) -> Iterator[tuple[int, Way]]:
        """All that the explanations say of each operation that may be at fault, by its number."""
        for operation in candidates(self.target, first):
            for way in _all_of(operation):
                yield operation.number, way

    def further(self) -> Iterator[Way]:
        """What may be done differently at any step, where no known mistake makes the two agree: the first that does."""
        first = self._first
        if first is None:
            return
        self._left = 2 * self._most(first)
        for chosen in broad(self.target, first, candidates(self.target, first), self._run, _all_of):
            if self._left <= 0:
                break
            if self._apart(chosen) <= self.target.limit:
                yield _done(next(iter(chosen.values())), chosen)
                return
        self._left = self._most(first)  # for pairs of what was tried before

    def elsewhere(self) -> Iterator[Relation]:
        """What Flax has there, among what torch's operations until then gave.

        Nothing behind an earlier cause: torch's run is done there as Flax's, and gives other values than torch's own.
        """
        first = self._first
        if first is not None and not self.target.ways:
            yield from elsewhere(self.target, first.operations)

    def together(self) -> Iterator[Way]:
        """Two explanations that make the two agree together, one of which alone brings them nearer.

        Called again, it tries pairs with what was tried alone since.
        """
        start, paired = self._apart({}), self._paired
        tried = sorted(
            (each for each in enumerate(self._tried) if each[1][0] not in (start, inf)), key=lambda each: each[1][0]
        )
        self._paired = len(self._tried)
        for place, (apart, one) in tried[:MOST_BEGUN]:
            if apart >= start:
                return
            for other_place, (_, other) in tried:
                if max(place, other_place) < paired:
                    continue
                kinds = {way.kind for way in (*one.values(), *other.values())}
                # Of one operation, the way that changes its arguments has to come first.
                orders = (_both(one, other), _both(other, one)) if one.keys() & other.keys() else (_both(one, other),)
                for both in orders if len(kinds) > 1 else ():
                    if self._apart(both) <= self.target.limit:
                        yield _done(next(iter(one.values())), both)
                        yield _done(next(iter(other.values())), both)
                        return

    @cached_property
    def _first(self) -> Rerun | None:
        """torch's run as it is."""
        return self._run({}, located=True)

    def _most(self, first: Rerun) -> int:
        """How often torch's model may be run."""
        return max(LEAST_RUNS, min(MOST_RUNS, int(MOST_NUMBERS / max(1, first.numbers))))

    def _agrees(self, chosen: Chosen) -> bool:
        apart = self._apart(chosen)
        self._tried.append((apart, chosen))
        return apart <= self.target.limit

    def _apart(self, chosen: Chosen) -> float:
        """How far apart the two then are; infinity where an operation cannot be done so, or enough was tried."""
        self._left -= 1
        done = self._run(chosen) if self._left > 0 else None
        if done is None:
            return inf
        try:
            return self.target.apart(done)
        except Exception:
            return inf

    def _run(self, chosen: Chosen, *, located: bool = False) -> Rerun | None:
        """None where an operation cannot be done in that way, as for the shapes that it gives."""
        models, until = self.target.models, None if self.target.torch is None else self.target.torch.key
        ways = {number: way.run for number, way in _both(self.target.ways, chosen).items()}
        try:
            inputs, training = models.inputs, self.target.training
            return rerun(models.torch, inputs, training=training, until=until, ways=ways, located=located)
        except Exception:
            return None


def _done(way: Way, chosen: Chosen) -> Way:
    """A way with all that was done in the run that agreed."""
    return replace(way, chosen=chosen)


def _both(one: Mapping[int, Way], other: Mapping[int, Way]) -> Chosen:
    """Two sets of ways at once."""
    shared = {number: replace(one[number], run=together((one[number], other[number]))) for number in one.keys() & other}
    return {**one, **other, **shared}


def _exchanged(target: Target, first: Rerun) -> Iterator[tuple[Way, Chosen]]:
    """Two linear layers of one shape, each in the other's place: both are right, and it is their results that are not
    taken as torch takes them."""
    until = first.started if target.torch is not None else len(first.operations)
    linear = [op for op in first.operations[:until] if op.name == "linear" and op.layer][-MOST_EXCHANGED:]
    for one, other in combinations(linear, 2):
        weights = [(op.arguments["weight"], op.arguments.get("bias")) for op in (one, other)]
        if weights[0][0].shape == weights[1][0].shape and one.input.shape == other.input.shape:
            why = f"Flax takes the result of {one.layer} for that of {other.layer}, and the other way round"
            remedy = "Exchange the two where they are used."
            ways = [
                Way("layers-exchanged", why, having(weight=weight, bias=bias), remedy)
                for weight, bias in reversed(weights)
            ]
            yield ways[0], {one.number: ways[0], other.number: ways[1]}


def _all_of(operation: TorchOperation) -> Iterator[Way]:
    """Every explanation's ways of an operation."""
    for explanation in EXPLANATIONS:
        yield from _of(explanation, operation)


def _of(explanation: Explanation, operation: TorchOperation) -> Iterator[Way]:
    """An explanation's ways; none where it fails on what it did not foresee."""
    with suppress(Exception):
        for way in explanation(operation):
            yield replace(way, cites=operation.cites, where=operation.said if operation.line else "")


def _subsets(group: Chosen) -> Iterator[tuple[int, ...]]:
    """All of the operations, the last alone, the one before it, …, then some of them together."""
    numbers = tuple(sorted(group, reverse=True))
    yield numbers
    most = max(way.together for way in group.values())
    for count in range(1, most + 1):
        if count < len(numbers):
            yield from combinations(numbers, count)
