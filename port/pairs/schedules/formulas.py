"""The pairs: torch.optim's schedulers ⇄ `port.transforms`' schedules.

The rate starts from the group's ``initial_lr``, which a scheduler keeps in ``base_lrs``; per-group options such as
``max_lr`` are stored in the group or in a list.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from port.pairs.expression import Expression, Function, Reference
from port.pairs.schedules.functions import expression_of
from port.pairs.schedules.pair import SchedulePair


def _schedule(name: str, *arguments: Any, **options: Any) -> Expression:
    return Expression(f"port.transforms.{name}", arguments, options)


def neat(value: float) -> float:
    """Round a recomputed number (25.000000000000004) to the one that the user passed."""
    short = float(f"{value:.12g}")
    return short if math.isclose(short, value, rel_tol=2e-15) else value


def _whole(value: float) -> int | None:
    return int(value) if float(value).is_integer() else None


def _unlike(defaults: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return the options that differ from torch's defaults."""
    return {name: value for name, value in options.items() if value != defaults[name]}


def _step(scheduler: Any, group: int, base: float) -> Expression | None:
    size = _whole(scheduler.step_size)
    return None if size is None else _schedule("step_lr", base, step_size=size, gamma=float(scheduler.gamma))


def _multi_step(scheduler: Any, group: int, base: float) -> Expression:
    # torch compares steps for equality, so other milestones are never reached.
    milestones = sorted(scheduler.milestones.items())
    reached = {int(step): times for step, times in milestones if step >= 0 and float(step).is_integer()}
    scales = {step: float(scheduler.gamma) ** times for step, times in reached.items()}
    return Expression("optax.piecewise_constant_schedule", (base, scales))


def _constant(scheduler: Any, group: int, base: float) -> Expression | None:
    steps = _whole(scheduler.total_iters)
    if steps is None:
        return None
    return _schedule("constant_lr", base, factor=float(scheduler.factor), total_iters=steps)


def _linear(scheduler: Any, group: int, base: float) -> Expression | None:
    steps = _whole(scheduler.total_iters)
    if steps is None:
        return None
    start, end = float(scheduler.start_factor), float(scheduler.end_factor)
    return _schedule("linear_lr", base, start_factor=start, end_factor=end, total_iters=steps)


def _exponential(scheduler: Any, group: int, base: float) -> Expression:
    return _schedule("exponential_lr", base, gamma=float(scheduler.gamma))


def _polynomial(scheduler: Any, group: int, base: float) -> Expression | None:
    steps = _whole(scheduler.total_iters)
    if steps is None:
        return None
    return _schedule("polynomial_lr", base, total_iters=steps, power=float(scheduler.power))


def _cosine(scheduler: Any, group: int, base: float) -> Expression:
    return _schedule("cosine_annealing_lr", base, T_max=scheduler.T_max, eta_min=float(scheduler.eta_min))


def _warm_restarts(scheduler: Any, group: int, base: float) -> Expression:
    name, own = "cosine_annealing_warm_restarts", float(scheduler.base_lrs[group])
    return _schedule(name, own, T_0=scheduler.T_0, T_mult=scheduler.T_mult, eta_min=float(scheduler.eta_min))


def _cycle(scheduler: Any) -> dict[str, Any] | None:
    if scheduler._scale_fn_custom is not None:
        return None
    sizes = [neat(scheduler.total_size * share) for share in (scheduler.step_ratio, 1 - scheduler.step_ratio)]
    up, down = (round(size) if math.isclose(size, round(size), abs_tol=1e-9) else size for size in sizes)
    defaults = {"step_size_down": up, "mode": "triangular", "gamma": 1.0}
    options = _unlike(defaults, step_size_down=down, mode=scheduler.mode, gamma=float(scheduler.gamma))
    return {"step_size_up": up, **options}


def _cyclic(scheduler: Any, group: int, base: float) -> Expression | None:
    cycle = _cycle(scheduler)
    ends = float(scheduler.base_lrs[group]), float(scheduler.max_lrs[group])
    return None if cycle is None else _schedule("cyclic_lr", *ends, **cycle)


def _cyclic_momentum(scheduler: Any, group: int) -> Expression | None:
    cycle = _cycle(scheduler)
    if not scheduler.cycle_momentum or cycle is None:
        return None
    ends = {"base_momentum": scheduler.base_momentums[group], "max_momentum": scheduler.max_momentums[group]}
    return _schedule("cyclic_momentum", **ends, **cycle)


def _one_cycle_shape(scheduler: Any) -> dict[str, Any]:
    phases = scheduler._schedule_phases
    share = neat((phases[0]["end_step"] + 1) / scheduler.total_steps)
    options = {"pct_start": share, "anneal_strategy": scheduler._anneal_func_type, "three_phase": len(phases) == 3}
    return _unlike({"pct_start": 0.3, "anneal_strategy": "cos", "three_phase": False}, **options)


def _one_cycle(scheduler: Any, group: int, base: float) -> Expression:
    initial, highest, lowest = (
        float(scheduler.optimizer.param_groups[group][key]) for key in ("initial_lr", "max_lr", "min_lr")
    )
    factors = {"div_factor": neat(highest / initial), "final_div_factor": neat(initial / lowest)}
    options = {**_one_cycle_shape(scheduler), **_unlike({"div_factor": 25.0, "final_div_factor": 1e4}, **factors)}
    return _schedule("one_cycle_lr", highest, total_steps=scheduler.total_steps, **options)


def _one_cycle_momentum(scheduler: Any, group: int) -> Expression | None:
    if not scheduler.cycle_momentum:
        return None
    ends = {key: float(scheduler.optimizer.param_groups[group][key]) for key in ("base_momentum", "max_momentum")}
    shape = _one_cycle_shape(scheduler)
    return _schedule("one_cycle_momentum", total_steps=scheduler.total_steps, **ends, **shape)


def _swa(scheduler: Any, group: int, base: float) -> Expression:
    """SWALR starts from the group's rate at its first step, which is recomputed from the present rate."""
    goal = float(scheduler.optimizer.param_groups[group]["swa_lr"])
    share = scheduler.anneal_func(min(1.0, scheduler.last_epoch / max(1, scheduler.anneal_epochs)))
    if scheduler.anneal_epochs > 0 and share < 1:
        present = float(scheduler.optimizer.param_groups[group]["lr"])
        began = neat((present - share * goal) / (1 - share))
        base = base if math.isclose(base, began, rel_tol=1e-9) else began
    shape = {"anneal_epochs": scheduler.anneal_epochs, "anneal_strategy": scheduler._anneal_strategy}
    return _schedule("swa_lr", base, swa_lr=goal, **shape)


def _lambda(scheduler: Any, group: int, base: float) -> Expression | None:
    """Return a call of the user's function, if JAX can trace it."""
    return expression_of("lambda_lr", scheduler.lr_lambdas[group], None, base)


def _none(scheduler: Any, group: int, base: float) -> None:
    return None


def _restarted(scheduler: Any) -> None:
    scheduler.T_cur, scheduler.T_i = -1, scheduler.T_0


def _based_on_the_groups(scheduler: Any) -> None:
    """Reset the base rates: CyclicLR sets its own after its first step, which may use an earlier scheduler's."""
    groups = scheduler.optimizer.param_groups
    scheduler.base_lrs = [group.get("initial_lr", base) for group, base in zip(groups, scheduler.base_lrs, strict=True)]


def _with_functions_anew(scheduler: Any) -> None:
    """Copy the functions: callable objects may have state."""
    scheduler.lr_lambdas = copy.deepcopy(scheduler.lr_lambdas)


def example_of(name: str, *arguments: Any, **options: Any) -> Function:
    """Return a function from an optimizer to a torch.optim scheduler."""
    return Function(("optimizer",), Expression(f"torch.optim.{name}", (Reference("optimizer"), *arguments), options))


def _pair(
    name: str,
    learning_rate: Callable[..., Any],
    keys: str,
    example: dict[str, Any],
    *,
    optional: str = "",
    **more: Any,
) -> SchedulePair:
    return SchedulePair(
        f"torch.optim.{name}",
        learning_rate,
        keys=tuple(keys.split()),
        optional=tuple(optional.split()),
        example=example_of(name, **example),
        **more,
    )


NO_FUNCTIONS = "it does not contain the scheduler's functions"
_FUNCTIONS: dict[str, Any] = {"lacks": NO_FUNCTIONS, "rewind": _with_functions_anew}

SCHEDULES = (
    _pair("lr_scheduler.StepLR", _step, "step_size gamma", {"step_size": 30, "gamma": 0.1}, multiplies=True),
    _pair(
        "lr_scheduler.MultiStepLR",
        _multi_step,
        "milestones gamma",
        {"milestones": [30, 60], "gamma": 0.1},
        multiplies=True,
    ),
    _pair(
        "lr_scheduler.ConstantLR",
        _constant,
        "factor total_iters",
        {"factor": 0.5, "total_iters": 5},
        multiplies=True,
    ),
    _pair(
        "lr_scheduler.LinearLR",
        _linear,
        "start_factor end_factor total_iters",
        {"start_factor": 0.1, "total_iters": 5},
        multiplies=True,
    ),
    _pair("lr_scheduler.ExponentialLR", _exponential, "gamma", {"gamma": 0.95}, multiplies=True),
    _pair(
        "lr_scheduler.PolynomialLR",
        _polynomial,
        "total_iters power",
        {"total_iters": 100, "power": 2.0},
        multiplies=True,
    ),
    # After T_max it adds to the rate, which is then eta_min.
    _pair("lr_scheduler.CosineAnnealingLR", _cosine, "T_max eta_min", {"T_max": 100, "eta_min": 1e-5}),
    _pair(
        "lr_scheduler.CosineAnnealingWarmRestarts",
        _warm_restarts,
        "T_0 T_i T_mult T_cur eta_min",
        {"T_0": 10, "T_mult": 2},
        sets=True,
        rewind=_restarted,
    ),
    _pair(
        "lr_scheduler.CyclicLR",
        _cyclic,
        "max_lrs total_size step_ratio mode gamma scale_mode cycle_momentum _scale_fn_custom",
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 20},
        optional="use_beta1 base_momentums max_momentums",
        momentum=_cyclic_momentum,
        sets=True,
        rewind=_based_on_the_groups,
    ),
    _pair(
        "lr_scheduler.OneCycleLR",
        _one_cycle,
        "total_steps _schedule_phases _anneal_func_type cycle_momentum",
        {"max_lr": 0.1, "total_steps": 100},
        optional="use_beta1",
        momentum=_one_cycle_momentum,
        sets=True,
    ),
    _pair("swa_utils.SWALR", _swa, "anneal_epochs _anneal_strategy", {"swa_lr": 0.05}, continues=True),
    _pair(
        "lr_scheduler.LambdaLR",
        _lambda,
        "lr_lambdas",
        {"lr_lambda": Function(("step",), 0.5)},
        sets=True,
        **_FUNCTIONS,
    ),
    _pair(
        "lr_scheduler.MultiplicativeLR",
        _none,
        "lr_lambdas",
        {"lr_lambda": Function(("step",), 0.95)},
        **_FUNCTIONS,
    ),
)
