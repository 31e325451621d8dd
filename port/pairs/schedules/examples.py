"""An example call of every known scheduler, which the cheat sheet shows with its twin."""

from __future__ import annotations

from typing import Any

from port.pairs.expression import Expression, Function
from port.pairs.schedules.formulas import SCHEDULES, example_of
from port.pairs.schedules.known import all_schedules


def _inner(name: str, **options: Any) -> Expression:
    call: Expression = example_of(f"lr_scheduler.{name}", **options).body
    return call


_WARM_UP = _inner("LinearLR", start_factor=0.1, total_iters=5)
_COSINE = _inner("CosineAnnealingLR", T_max=95)
_CHAIN = Expression("torch.optim.lr_scheduler.ChainedScheduler", ([_WARM_UP, _inner("ExponentialLR", gamma=0.95)],))
_OTHERS = (
    example_of("lr_scheduler.ReduceLROnPlateau", factor=0.1, patience=10),
    example_of("lr_scheduler.SequentialLR", schedulers=[_WARM_UP, _COSINE], milestones=[5]),
    Function(("optimizer",), _CHAIN),
)
"""Schedulers without a pair: they follow a metric, or hold others."""

EXAMPLES: tuple[Function, ...] = (*(pair.example for pair in SCHEDULES if pair.example is not None), *_OTHERS)
"""Examples of torch's own schedulers."""


def all_examples() -> tuple[Function, ...]:
    """Return all examples, those of registered pairs first."""
    return (*(pair.example for pair in all_schedules() if pair.example is not None), *_OTHERS)
