"""Changes that may apply at any step, tried when no known mistake makes the two sides agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import torch

from port.parity.diagnose.causes.constants import (
    LEAST_VALUES,
    CodeNumber,
    Factor,
    bearing,
    factors_of,
    numbers_of,
    solved,
    usual,
)
from port.parity.diagnose.causes.layers import of_layers
from port.parity.diagnose.causes.operands import added, exchanged, in_one_use, others, replaced
from port.parity.diagnose.causes.operation import TorchOperation, Way
from port.parity.diagnose.causes.rerun import Rerun
from port.parity.diagnose.causes.target import Target

Chosen = dict[int, Way]
_MOST_LAYERS = 24
_LEAST_BEARING = 1e-3
"""A constant is dropped if it moves the result in a direction with less than this share of the difference."""


def broad(
    target: Target,
    first: Rerun,
    candidates: Sequence[TorchOperation],
    run: Callable[[Chosen], Rerun | None],
    explained: Callable[[TorchOperation], Iterator[Way]],
) -> Iterator[Chosen]:
    """Yield sets of changed operations, the simplest first; the caller tests whether they agree.

    Args:
        target: the place.
        first: torch's unchanged run, up to that place.
        candidates: the operations that may be at fault.
        run: runs torch with changed operations.
        explained: the known ways to change one operation.
    """
    calls = _calls(target, first)
    everything = _in_order(first)
    steps = [*candidates, *calls]
    steps.sort(key=partial(_place, first))
    weights = [(name, torch.from_numpy(np.ascontiguousarray(value))) for name, value in _weights(target)]
    yield from _numbers(target, first, numbers_of(candidates), run)
    for number, way in chain(
        of_layers(calls, target.models.torch.modules),
        exchanged(steps),
        added(steps, [call for call in first.layers if call.result is not None]),
        others(steps, everything, weights),
        in_one_use(steps, explained),
        replaced(steps, everything),
    ):
        yield {number: way}
    yield from _numbers(target, first, numbers_of(candidates, alone=True), run)
    yield from _numbers(target, first, factors_of(candidates), run)


def _numbers(
    target: Target, first: Rerun, numbers: Iterable[CodeNumber], run: Callable[[Chosen], Rerun | None]
) -> Iterator[Chosen]:
    """Yield other values for constants in torch's code: usual mistakes, and values solved from the difference."""
    start = target.residual(first)

    def residual(number: CodeNumber, other: float) -> np.ndarray | None:
        done = run(dict(number.ways(other)))
        return None if done is None else target.residual(done)

    for number in numbers:
        left = partial(residual, number)
        bears = None if start is None else bearing(number, left, start)
        if bears is not None and bears < _LEAST_BEARING and not number.is_a_bound:
            continue
        for other in () if isinstance(number, Factor) else usual(number):
            yield number.ways(other)
        if bears is not None and start is not None and np.count_nonzero(np.abs(start) > target.limit) >= LEAST_VALUES:
            for other in solved(number, left, start):
                rounded = float(f"{other:.6g}")
                yield number.ways(rounded)
                if rounded != other:
                    yield number.ways(other)


def _calls(target: Target, first: Rerun) -> list[TorchOperation]:
    """Return the nearest layer calls that may be at fault: inside the layer that differs, or before it."""
    own, begun = target.parting.itself, first.begun
    found = []
    for call in first.layers:
        is_target = target.torch is not None and call.layer == target.torch.path
        inside = target.torch is not None and begun[call.number] >= first.started
        if call.result is None or is_target or (own is True and not inside) or (own is False and inside):
            continue
        found.append(call)
    return found[-_MOST_LAYERS:]


def _in_order(first: Rerun) -> list[TorchOperation]:
    """Return all steps in the order in which they began."""
    done = [call for call in first.layers if call.result is not None]
    steps = [operation for operation in first.operations if not operation.reads]
    return sorted([*steps, *done], key=partial(_place, first))


def _place(first: Rerun, step: TorchOperation) -> tuple[int, int]:
    return (first.begun[step.number], 0) if step.number < 0 else (step.number, 1)


def _weights(target: Target) -> Iterator[tuple[str, np.ndarray]]:
    dtype = target.models.torch.precision
    for name, value in target.models.torch.weights.items():
        if value.dtype.kind == "f" and value.ndim:
            yield name, value.astype(dtype)
