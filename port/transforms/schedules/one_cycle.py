"""OneCycleLR: up, down, and far down (`torch/optim/lr_scheduler.py`, ``OneCycleLR.get_lr``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from port.errors import UnknownChoice, UsageError
from port.transforms.schedules.count import Schedule, as_float, ending

_STRATEGIES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "cos": lambda passed: (1 - jnp.cos(jnp.pi * passed)) / 2,
    "linear": lambda passed: passed,
}


def one_cycle_lr(
    max_lr: float,
    total_steps: int,
    *,
    pct_start: float = 0.3,
    anneal_strategy: str = "cos",
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
    three_phase: bool = False,
) -> Schedule:
    """OneCycleLR's rate.

    From ``max_lr / div_factor`` up to ``max_lr`` and down to ``max_lr / div_factor / final_div_factor``; in three
    phases, down to the first rate before that.

    The way up ends at step ``pct_start · total_steps − 1``, the whole at ``total_steps − 1``.
    `optax.cosine_onecycle_schedule` ends both one step later: of 20 steps it is off by up to 0.15 · ``max_lr``, of 100
    by 0.03. torch makes one step more than the total, along the last phase's curve, and rejects the next one; so does
    this.

    Raises:
        UnknownChoice: ``anneal_strategy`` is neither ``"cos"`` nor ``"linear"``.
        UsageError: from the schedule, of a count beyond ``total_steps``.
    """
    initial = max_lr / div_factor
    levels = [initial, max_lr, *([initial] if three_phase else []), initial / final_div_factor]
    return _phases(levels, total_steps, pct_start, anneal_strategy)


def one_cycle_momentum(
    total_steps: int,
    *,
    base_momentum: float = 0.85,
    max_momentum: float = 0.95,
    pct_start: float = 0.3,
    anneal_strategy: str = "cos",
    three_phase: bool = False,
) -> Schedule:
    """OneCycleLR's momentum, or Adam's b1.

    From ``max_momentum`` down to ``base_momentum`` while the rate goes up, and back; in a third phase it stays. Raises
    as `one_cycle_lr`.
    """
    levels = [max_momentum, base_momentum, max_momentum, *([max_momentum] if three_phase else [])]
    return _phases(levels, total_steps, pct_start, anneal_strategy)


def _phases(levels: Sequence[float], total_steps: int, pct_start: float, strategy: str) -> Schedule:
    """Interpolate from level to level; phases end where torch's do."""
    if strategy not in _STRATEGIES:
        raise UnknownChoice("anneal_strategy", strategy, _STRATEGIES)
    if total_steps < 1:
        raise UsageError(f"total_steps must be at least 1, got {total_steps}")
    anneal = _STRATEGIES[strategy]
    middle = [pct_start * total_steps - 1, 2 * pct_start * total_steps - 2][: len(levels) - 2]
    bounds = [0.0, *middle, total_steps - 1.0]

    def schedule(count: jax.typing.ArrayLike) -> jax.Array:
        count = jnp.asarray(count)
        value: jax.Array | None = None
        for start, end, first, last in reversed([*zip(bounds, bounds[1:], levels, levels[1:], strict=False)]):
            # A phase without steps is never looked at, except by torch, which divides by zero.
            passed = (as_float(count) - start) / ((end - start) or math.nan)
            phase = first + (last - first) * anneal(passed)
            value = phase if value is None else jnp.where(count <= math.floor(end), phase, value)
        assert value is not None
        return value

    beyond = f"OneCycleLR has {total_steps} steps; step {{count}} is beyond: pass the total_steps that are trained"
    return ending(schedule, total_steps, beyond)
