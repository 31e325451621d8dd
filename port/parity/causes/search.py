"""torch's run with its operations done in other ways, one explanation after another, until it gives what Flax gave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations

from port.parity.causes import activations, attention, heads, kernels, normalisation, positions, recurrent, spatial
from port.parity.causes.operation import Explanation, Operation, Run, Way, having
from port.parity.causes.rerun import Rerun, rerun
from port.parity.causes.target import Target

EXPLANATIONS: tuple[Explanation, ...] = (
    *normalisation.EXPLANATIONS,
    *activations.EXPLANATIONS,
    *kernels.EXPLANATIONS,
    *spatial.EXPLANATIONS,
    *attention.EXPLANATIONS,
    *positions.EXPLANATIONS,
    *heads.EXPLANATIONS,
    *recurrent.EXPLANATIONS,
)
MOST_RUNS, LEAST_RUNS = 600, 40
"""So many times at most torch's model runs for one place where the two part; and so many where it is large."""
MOST_NUMBERS = 2e9
"""So many numbers at most are given to operations in all of these runs together."""
MOST_EXCHANGED = 6
"""So many linear layers at most, counted back from there, are tried in each other's places."""
NEAREST = 64
"""So many operations at most, counted back from that place, are done in other ways."""


def searched(target: Target) -> Iterator[Way]:
    """The ways that make torch's run give what Flax gave; all those of the lowest rank that has any."""
    until = None if target.torch is None else target.torch.key
    first = _run(target, until, {})
    if first is None:
        return
    ways = [
        (operation.number, way)
        for operation in _candidates(target, first)
        for explanation in EXPLANATIONS
        for way in _of(explanation, operation)
    ]
    left = max(LEAST_RUNS, min(MOST_RUNS, int(MOST_NUMBERS / max(1, first.numbers))))
    for rank in sorted({way.rank for _, way in ways}):
        groups: dict[tuple[str, str], dict[int, Way]] = {}
        for number, way in ways:
            if way.rank == rank:
                groups.setdefault((way.kind, way.why), {})[number] = way
        found: set[str] = set()
        for (kind, _), group in groups.items():
            # Of what comes to the same, one is told.
            for chosen in _subsets(group) if kind not in found else ():
                left -= 1
                done = _run(target, until, {number: group[number].run for number in chosen}) if left > 0 else None
                if done is not None and _agrees(target, done):
                    yield group[chosen[0]]
                    found.add(kind)
                    break
        if found:
            return
    for way, runs in _exchanged(target, first):
        left -= 1
        done = _run(target, until, runs) if left > 0 else None
        if done is not None and _agrees(target, done):
            yield way
            return


def _exchanged(target: Target, first: Rerun) -> Iterator[tuple[Way, dict[int, Run]]]:
    """Two linear layers of one shape, each in the other's place: both are right, and it is their results that are not
    taken as torch takes them."""
    until = first.started if target.torch is not None else len(first.operations)
    linear = [op for op in first.operations[:until] if op.name == "linear" and op.layer][-MOST_EXCHANGED:]
    for one, other in combinations(linear, 2):
        weights = [(op.arguments["weight"], op.arguments.get("bias")) for op in (one, other)]
        if weights[0][0].shape == weights[1][0].shape and one.input.shape == other.input.shape:
            why = f"Flax takes the result of {one.layer} for that of {other.layer}, and the other way round"
            runs = [having(weight=weight, bias=bias) for weight, bias in reversed(weights)]
            way = Way("layers-exchanged", why, runs[0], remedy="Exchange the two where they are used.")
            yield way, {one.number: runs[0], other.number: runs[1]}


def _of(explanation: Explanation, operation: Operation) -> Iterator[Way]:
    """An explanation's ways; none where it fails on what it did not foresee."""
    with suppress(Exception):
        yield from explanation(operation)


def _run(target: Target, until: str | None, ways: dict[int, Run]) -> Rerun | None:
    """None where an operation cannot be done in that way, as for the shapes that it gives."""
    models = target.models
    try:
        return rerun(models.torch, models.inputs, training=target.training, until=until, ways=ways)
    except Exception:
        return None


def _agrees(target: Target, done: Rerun) -> bool:
    try:
        return target.agrees(done)
    except Exception:
        return False


def _subsets(group: dict[int, Way]) -> Iterator[tuple[int, ...]]:
    """All of the operations, the last alone, the one before it, …, then some of them together."""
    numbers = tuple(sorted(group, reverse=True))
    yield numbers
    most = max(way.together for way in group.values())
    for count in range(1, most + 1):
        if count < len(numbers):
            yield from combinations(numbers, count)


def _candidates(target: Target, run: Rerun) -> list[Operation]:
    """The operations that may be at fault: what lies between the layers that are right and the one that parts."""
    limit = target.limit
    is_right: dict[str, bool] = {}
    for row in target.result.rows:
        path = row.layer.partition(" (call ")[0]
        is_right[path] = is_right.get(path, True) and row.output is not None and row.output <= limit
    right = [path for path, holds in is_right.items() if holds]
    own = target.parting.itself
    twins = target.result.flax_layers
    chosen = []
    for operation in run.operations:
        inside = target.torch is not None and operation.number >= run.started
        if (own is True and not inside) or (own is False and inside):
            continue
        if any(operation.layer == path or operation.layer.startswith(f"{path}.") for path in right):
            continue
        match = target.models.matched.get(operation.layer)
        twin = twins.get(match.flax.path) if match is not None else None
        chosen.append(replace(operation, twin=twin))
    return chosen[-NEAREST:]
