"""Search for the changes of torch's run that give Flax's values, one explanation after another."""

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
"""The most runs of torch's model for one divergence, and for a large model."""
MOST_NUMBERS = 2e9
"""The most numbers that the operations of all these runs take together."""
MOST_EXCHANGED = 6
"""The most linear layers, counted back from the divergence, that are swapped with each other."""
MOST_BEGUN = 8
"""The most explanations that bring the two closer and are tried with a second one."""


class Search:
    """Search for the changes of torch's run that give Flax's values at one place.

    Args:
        target: the place.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._tried: list[tuple[float, Chosen]] = []
        self._paired = 0  # how many of these were tried in pairs
        self._left = 0

    def again(self, ways: Sequence[Way]) -> Iterator[Way]:
        """Yield an explanation from another mode if it makes the two agree in this one."""
        self._left = len(ways) + 1
        for way in ways:
            if self._apart({**way.chosen}) <= self.target.limit:
                yield way
                return

    def alike(self, ways: Sequence[Way]) -> Iterator[Way]:
        """Try the mistakes that were found together at the previous place; alone, they may not bring the two closer."""
        kinds = dict.fromkeys(way.kind for way in ways)
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
        """Yield the known mistakes that make the two agree: all of the lowest rank that has any."""
        return self._ranked(general=False)

    def general(self) -> Iterator[Way]:
        """Yield a general mistake, possible at any step, that makes the two agree: a missing step, another function."""
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
                # Of equivalent ways, yield one.
                for numbers in _subsets(group) if kind not in found else ():
                    chosen = {number: group[number] for number in numbers}
                    if self._agrees(chosen):
                        yield _done(chosen[numbers[0]], chosen)
                        found.add(kind)
                        break
                if found and general:
                    break  # of general mistakes, one that agrees is enough
            if found:
                return
        for way, chosen in _exchanged(self.target, first) if not general else ():
            if self._agrees(chosen):
                yield _done(way, chosen)
                return
        self._left = most  # the budget for pairs

    def _ways(self, first: Rerun) -> Iterator[tuple[int, Way]]:
        """Yield all ways to change each operation that may be at fault, by its number."""
        for operation in candidates(self.target, first):
            for way in _all_of(operation):
                yield operation.number, way

    def further(self) -> Iterator[Way]:
        """Yield the first general change, at any step, that makes the two agree."""
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
        self._left = self._most(first)  # the budget for pairs of what was tried before

    def elsewhere(self) -> Iterator[Relation]:
        """Yield where Flax's values are among the results of torch's earlier operations.

        Not after an earlier cause: torch's run then imitates Flax's there, and its values are not torch's.
        """
        first = self._first
        if first is not None and not self.target.ways:
            yield from elsewhere(self.target, first.operations)

    def together(self) -> Iterator[Way]:
        """Yield two explanations that make the two agree together, one of which alone brings them closer.

        A second call tries pairs with the ways tried since.
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
                # Of two ways of one operation, the one that changes its arguments comes first.
                orders = (_both(one, other), _both(other, one)) if one.keys() & other.keys() else (_both(one, other),)
                for both in orders if len(kinds) > 1 else ():
                    if self._apart(both) <= self.target.limit:
                        yield _done(next(iter(one.values())), both)
                        yield _done(next(iter(other.values())), both)
                        return

    @cached_property
    def _first(self) -> Rerun | None:
        """torch's unchanged run."""
        return self._run({}, located=True)

    def _most(self, first: Rerun) -> int:
        """Return how often torch's model may run."""
        return max(LEAST_RUNS, min(MOST_RUNS, int(MOST_NUMBERS / max(1, first.numbers))))

    def _agrees(self, chosen: Chosen) -> bool:
        apart = self._apart(chosen)
        self._tried.append((apart, chosen))
        return apart <= self.target.limit

    def _apart(self, chosen: Chosen) -> float:
        """Return how far apart the two then are; infinity if the run fails, or the budget is used up."""
        self._left -= 1
        done = self._run(chosen) if self._left > 0 else None
        if done is None:
            return inf
        try:
            return self.target.apart(done)
        except Exception:
            return inf

    def _run(self, chosen: Chosen, *, located: bool = False) -> Rerun | None:
        """Run torch with the changes; None if an operation then fails, for example because of shapes."""
        models, until = self.target.models, None if self.target.torch is None else self.target.torch.key
        ways = {number: way.run for number, way in _both(self.target.ways, chosen).items()}
        try:
            inputs, training = models.inputs, self.target.training
            return rerun(models.torch, inputs, training=training, until=until, ways=ways, located=located)
        except Exception:
            return None


def _done(way: Way, chosen: Chosen) -> Way:
    """Return a way with all changes of the run that agreed."""
    return replace(way, chosen=chosen)


def _both(one: Mapping[int, Way], other: Mapping[int, Way]) -> Chosen:
    """Merge two sets of ways."""
    shared = {number: replace(one[number], run=together((one[number], other[number]))) for number in one.keys() & other}
    return {**one, **other, **shared}


def _exchanged(target: Target, first: Rerun) -> Iterator[tuple[Way, Chosen]]:
    """Yield swaps of two linear layers of one shape: each is correct, but is used in the other's place."""
    until = first.started if target.torch is not None else len(first.operations)
    linear = [op for op in first.operations[:until] if op.name == "linear" and op.layer][-MOST_EXCHANGED:]
    for one, other in combinations(linear, 2):
        weights = [(op.arguments["weight"], op.arguments.get("bias")) for op in (one, other)]
        if weights[0][0].shape == weights[1][0].shape and one.input.shape == other.input.shape:
            why = f"Flax swaps the results of {one.layer} and {other.layer}"
            remedy = "Swap the two where they are used."
            ways = [
                Way("layers-exchanged", why, having(weight=weight, bias=bias), remedy)
                for weight, bias in reversed(weights)
            ]
            yield ways[0], {one.number: ways[0], other.number: ways[1]}


def _all_of(operation: TorchOperation) -> Iterator[Way]:
    """Yield every explanation's ways of an operation."""
    for explanation in EXPLANATIONS:
        yield from _of(explanation, operation)


def _of(explanation: Explanation, operation: TorchOperation) -> Iterator[Way]:
    """Yield an explanation's ways; none if it raises."""
    with suppress(Exception):
        for way in explanation(operation):
            yield replace(way, cites=operation.cites, where=operation.said if operation.line else "")


def _subsets(group: Chosen) -> Iterator[tuple[int, ...]]:
    """Yield all of the operations, then the last alone, the one before it, …, then some combinations."""
    numbers = tuple(sorted(group, reverse=True))
    yield numbers
    most = max(way.together for way in group.values())
    for count in range(1, most + 1):
        if count < len(numbers):
            yield from combinations(numbers, count)
