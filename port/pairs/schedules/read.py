"""Reading a live torch scheduler: its twin and position."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

import numpy as np

from port.errors import StepsNeeded, UsageError
from port.pairs.expression import Expression
from port.pairs.pair import is_class, name_of
from port.pairs.schedules.functions import expression_of
from port.pairs.schedules.known import all_schedules, pair_of_scheduler
from port.pairs.schedules.pair import Plateau, Scheduled
from port.pairs.schedules.place import place_of
from port.pairs.schedules.rehearsal import momentum_of, rehearse

_SEQUENTIAL = "torch.optim.lr_scheduler.SequentialLR"
_CHAINED = "torch.optim.lr_scheduler.ChainedScheduler"
_LAMBDA = "torch.optim.lr_scheduler.LambdaLR"
_MULTIPLICATIVE = "torch.optim.lr_scheduler.MultiplicativeLR"
_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"
_PLATEAU_DEFAULTS = {
    "mode": "min",
    "factor": 0.1,
    "patience": 10,
    "threshold": 1e-4,
    "threshold_mode": "rel",
    "cooldown": 0,
    "min_lr": 0.0,
    "eps": 1e-8,
}


def schedule_of(scheduler: Any, group: int, *, steps: int | None = None) -> Scheduled:
    """Return the schedule that continues a torch scheduler, for one of the optimizer's groups.

    Args:
        scheduler: a scheduler of torch.optim at any step, also after ``load_state_dict``.
        group: the number of the optimizer's group.
        steps: number of the scheduler's steps for which a user's function is called (LambdaLR, unless JAX can trace it;
            MultiplicativeLR), or for which rates are tabulated: where there is no formula (functions without a name, a
            custom scale_fn, chains that are not products), or where the rate is a tensor, which rounds it. The schedule
            raises for later steps. Without it, a tensor's rate has the formula's unrounded values.

    Raises:
        UsageError: an unknown class; a table is needed and ``steps`` is missing, or not beyond the scheduler's
            position; or the group's rate is not the one that the scheduler alone would have set.
    """
    _check_known(scheduler)
    while is_class(type(scheduler), _CHAINED) and len(scheduler._schedulers) == 1:
        (scheduler,) = scheduler._schedulers
    count = place_of(scheduler)
    learning_rate = _formula(scheduler, group, _base(scheduler, group))
    momentum = _momentum(scheduler, group)
    options = scheduler.optimizer.param_groups[group]
    precision = _precision(options["lr"])
    if steps is not None and steps > count and precision == 0 and learning_rate is None:
        learning_rate = _of_function(scheduler, group, steps)
    if learning_rate is None or (steps is not None and precision > 0):
        learning_rate, momentum = _tables(scheduler, group, steps, count)
    _compare(
        scheduler,
        group,
        "rate",
        learning_rate,
        count,
        float(options["lr"]),
        _base(scheduler, group),
        tolerance=max(1e-6, 4 * (count + 1) * precision),
    )
    if momentum is not None:
        _compare(scheduler, group, "momentum", momentum, count, momentum_of(options), 1.0)
    return Scheduled(learning_rate, momentum, count)


def factor_of(scheduler: Any, group: int) -> Scheduled:
    """Return a scheduler's factor, its schedule for the rate 1, for one group; for use with a ReduceLROnPlateau.

    Args:
        scheduler: one that only multiplies the rate, or a ChainedScheduler of such; at any step.
        group: the number of the optimizer's group.

    Raises:
        UsageError: another scheduler, or one without a formula.
    """
    _check_known(scheduler)
    held = _unchained(scheduler)
    for inner in held:
        pair = pair_of_scheduler(inner)
        if pair is None or not pair.multiplies:
            multiplying = ", ".join(pair.torch.rpartition(".")[2] for pair in all_schedules() if pair.multiplies)
            raise UsageError(
                f"{type(inner).__name__} does not only multiply the present rate: it sets it, or pulls it towards a "
                "value, which undoes or distorts reductions by ReduceLROnPlateau. With ReduceLROnPlateau use one of "
                f"{multiplying}, or leave ReduceLROnPlateau out"
            )
    factor = _formula(scheduler, group, 1.0)
    if factor is None:
        names = " and ".join(type(inner).__name__ for inner in held)
        raise UsageError(f"{names} with ReduceLROnPlateau needs whole numbers of steps: pass integers")
    return Scheduled(factor, None, place_of(scheduler))


def plateau_of(scheduler: Any, group: int) -> Plateau:
    """Return the options and the position of a ReduceLROnPlateau, for one of the optimizer's groups.

    Raises:
        UsageError: another scheduler.
    """
    if any(is_class(base, _PLATEAU) for base in type(scheduler).__mro__[1:]):
        raise UsageError(
            f"{name_of(type(scheduler))} is derived from ReduceLROnPlateau, and may lower the rate differently; if it "
            "does not, make a ReduceLROnPlateau and load the state dict of this one into it"
        )
    if not is_class(type(scheduler), _PLATEAU):
        raise UsageError(f"plateau_of takes a {_PLATEAU}, got {name_of(type(scheduler))}: see schedule_of")
    options = {name: getattr(scheduler, name) for name in _PLATEAU_DEFAULTS if name != "min_lr"}
    options["min_lr"] = float(scheduler.min_lrs[group])
    return Plateau(
        learning_rate=float(scheduler.optimizer.param_groups[group]["lr"]),
        options={name: value for name, value in options.items() if value != _PLATEAU_DEFAULTS[name]},
        best=float(scheduler.best),
        num_bad_epochs=scheduler.num_bad_epochs,
        cooldown_counter=scheduler.cooldown_counter,
    )


def _precision(rate: Any) -> float:
    """Return the relative rounding of a rate: that of a tensor's dtype; 0 for a number or float64."""
    import torch

    return float(torch.finfo(rate.dtype).eps) if torch.is_tensor(rate) and rate.dtype != torch.float64 else 0.0


def _check_known(scheduler: Any) -> None:
    if is_class(type(scheduler), _PLATEAU):
        raise UsageError("ReduceLROnPlateau follows a metric, not the count of steps: see plateau_of")
    if any(is_class(type(scheduler), name) for name in (_SEQUENTIAL, _CHAINED)):
        for held in scheduler._schedulers:
            _check_known(held)
    elif pair_of_scheduler(scheduler) is None:
        known = [pair.torch for pair in all_schedules()] + [_SEQUENTIAL, _CHAINED, _PLATEAU]
        names = ", ".join(name.rpartition(".")[2] for name in known)
        raise UsageError(
            f"no schedule is known for {name_of(type(scheduler))}, and a subclass may do anything; known: {names}. "
            "Register a pair for it (port.register(port.pairs.SchedulePair(…)), or --pairs on the command line), "
            "tabulate its rates with port.transforms.tabulated, or rewrite it as a LambdaLR"
        )


def _base(scheduler: Any, group: int) -> float:
    """Return the rate that a scheduler starts from."""
    if hasattr(scheduler, "base_lrs"):
        return float(scheduler.base_lrs[group])
    if is_class(type(scheduler), _CHAINED):
        return _base(scheduler._schedulers[0], group)
    return float(scheduler.optimizer.param_groups[group]["initial_lr"])


def _formula(scheduler: Any, group: int, base: float) -> Expression | float | None:
    """Return the rate's schedule; None without a formula."""
    if is_class(type(scheduler), _SEQUENTIAL):
        return _sequence(scheduler, group, base)
    if is_class(type(scheduler), _CHAINED):
        return _chain(scheduler, group, base)
    pair = pair_of_scheduler(scheduler)
    assert pair is not None
    return pair.learning_rate(scheduler, group, base)


def _momentum(scheduler: Any, group: int) -> Expression | None:
    pair = pair_of_scheduler(scheduler)
    return None if pair is None else pair.momentum(scheduler, group)


def _cycles_momentum(scheduler: Any) -> bool:
    return getattr(scheduler, "cycle_momentum", False)


def _sequence(scheduler: Any, group: int, base: float) -> Expression | None:
    """Return a SequentialLR's schedule; None if a scheduler in it depends on the previous one."""
    held, milestones = scheduler._schedulers, list(scheduler._milestones)
    if milestones != sorted(milestones) or any(not isinstance(milestone, int) for milestone in milestones):
        return None
    schedules: list[Any] = []
    for number, inner in enumerate(held):
        pair = pair_of_scheduler(inner)
        # Nested sequences and chains are off by a step, or rejected, in torch; SWALR continues from the last rate.
        if pair is None or pair.continues or _cycles_momentum(inner):
            return None
        own = float(inner.base_lrs[group])
        first = number == bisect_right(milestones, 0)
        # torch starts the first from the group's rate, and the others by another formula.
        if (first and own != base and not pair.sets) or (not first and getattr(inner, "total_iters", 1) == 0):
            return None
        schedules.append(_formula(inner, group, own))
    if None in schedules:
        return None
    return Expression("port.transforms.sequential_lr", (schedules,), {"milestones": milestones})


def _unchained(scheduler: Any) -> list[Any]:
    """Flatten a ChainedScheduler, in the order of steps; any other scheduler is returned alone."""
    if not is_class(type(scheduler), _CHAINED):
        return [scheduler]
    return [inner for held in scheduler._schedulers for inner in _unchained(held)]


def _chain(scheduler: Any, group: int, base: float) -> Expression | float | None:
    """Return a chain's schedule: the product if all multiply, or the last one if it sets the rate; else None."""
    held = _unchained(scheduler)
    pairs = [pair_of_scheduler(inner) for inner in held]
    if any(map(_cycles_momentum, held)):
        return None
    if all(pair is not None and pair.multiplies for pair in pairs):
        bases = [base, *[1.0] * (len(held) - 1)]
        schedules = [_formula(inner, group, base) for inner, base in zip(held, bases, strict=True)]
        return None if None in schedules else Expression("port.transforms.chained_lr", (schedules,))
    last, own = pairs[-1], _base(held[-1], group)
    if last is None or not last.sets:
        return None
    # torch takes a CyclicLR's first rate from the group, where an earlier scheduler may have set another.
    begins_elsewhere = own != float(scheduler.optimizer.param_groups[group].get("initial_lr", own))
    return None if begins_elsewhere else _formula(held[-1], group, own)


def _of_function(scheduler: Any, group: int, steps: int) -> Expression | None:
    """Return a call of the user's function, tabulated for ``steps``; None if it has no source."""
    base = _base(scheduler, group)
    if is_class(type(scheduler), _LAMBDA):
        return expression_of("lambda_lr", scheduler.lr_lambdas[group], steps, base)
    if is_class(type(scheduler), _MULTIPLICATIVE):
        arguments = scheduler.lr_lambdas[group], steps, base
        return expression_of("multiplicative_lr", *arguments, needs_steps=True)
    return None


def _tables(scheduler: Any, group: int, steps: int | None, count: int) -> tuple[Expression, Expression | None]:
    name = type(scheduler).__name__
    if steps is None:
        raise StepsNeeded(
            f"this {name} has no formula, so its rates must be tabulated",
            "give steps=, the number of steps that the scheduler takes in the whole training",
        )
    if steps <= count:
        raise UsageError(f"steps={steps}, but the {name} has taken {count} already: pass those of the whole training")
    rates, momenta = (table[:, group] for table in rehearse(scheduler, steps))
    learning_rate = Expression("port.transforms.tabulated", (rates,))
    moves = not np.isnan(momenta).any() and (momenta != momenta[0]).any()
    return learning_rate, Expression("port.transforms.tabulated", (momenta,)) if moves else None


def _compare(
    scheduler: Any,
    group: int,
    what: str,
    schedule: Expression | float,
    count: int,
    present: float,
    scale: float,
    *,
    tolerance: float = 1e-6,
) -> None:
    """Raise if the group's value is not the one that the scheduler alone would have set."""
    import jax

    with jax.enable_x64(True):
        expected = float(schedule.build()(count)) if isinstance(schedule, Expression) else schedule
    if not math.isclose(expected, present, rel_tol=tolerance, abs_tol=1e-3 * tolerance * abs(scale)):
        raise UsageError(
            f"group {group} has the {what} {present:.9g}, but {type(scheduler).__name__} alone would have brought it "
            f"to {expected:.9g} at step {count}: something else has changed it. Pass all schedulers of the optimizer "
            "together, in the order of their steps; from a checkpoint load the optimizer as well as the scheduler; "
            "pass a rate that is set by hand as schedule=, a function from the step to the rate"
        )
