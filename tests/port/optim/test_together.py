"""Several schedulers of one optimizer, stepped side by side without a ChainedScheduler, beside torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler as L

import port
from models.recorded import STEPS as UPDATES
from models.recorded import Recorded, distance, flax_steps, torch_step
from port.errors import UsageError
from port.optim.together import WithPlateau, together
from port.pairs.schedules import schedule_of

STEPS = 40

SIDE_BY_SIDE: dict[str, Callable[[Any], list[Any]]] = {
    "warm-up and decay": lambda o: [L.LinearLR(o, 0.2, 1.0, 6), L.ExponentialLR(o, 0.93)],
    "decay and milestones": lambda o: [L.ExponentialLR(o, 0.97), L.MultiStepLR(o, [4, 9, 9, 30], 0.5)],
    "three": lambda o: [L.ConstantLR(o, 0.3, 4), L.StepLR(o, 7, 0.8), L.PolynomialLR(o, 50, 1.3)],
    "one in a chain": lambda o: [L.StepLR(o, 5, 0.9), L.ChainedScheduler([L.ExponentialLR(o, 0.95)])],
    "set by the last": lambda o: [L.ExponentialLR(o, 0.9), L.CosineAnnealingWarmRestarts(o, 6)],
    "with a cosine": lambda o: [L.LinearLR(o, 0.2, 1.0, 6), L.CosineAnnealingLR(o, 25, 1e-3)],
    "a function in it": lambda o: [L.MultiplicativeLR(o, lambda epoch: 1 - 0.2 / epoch), L.StepLR(o, 3, 0.9)],
}
FORMULAS = {"warm-up and decay", "decay and milestones", "three", "one in a chain", "set by the last"}


def live(make: Callable[[Any], list[Any]], steps: int = 0) -> tuple[Any, list[Any]]:
    groups = [{"params": [torch.nn.Parameter(torch.zeros(2))], "lr": rate} for rate in (0.3, 0.07)]
    optimizer = torch.optim.SGD(groups, momentum=0.5)
    optimizer._opt_called = True  # type: ignore[attr-defined]
    schedulers = make(optimizer)
    for _ in range(steps):
        for scheduler in schedulers:
            scheduler.step()
    return optimizer, schedulers


def rates(make: Callable[[Any], list[Any]], steps: int = STEPS) -> np.ndarray:
    """(steps, groups), as torch has them."""
    optimizer, schedulers = live(make)
    found = []
    for _ in range(steps):
        found.append([group["lr"] for group in optimizer.param_groups])
        for scheduler in schedulers:
            scheduler.step()
    return np.array(found)


# %% Schedules alone


@pytest.mark.parametrize("start", [0, 11])
@pytest.mark.parametrize("name", SIDE_BY_SIDE)
@pytest.mark.thin(3)
def test_every_rate_is_torchs(name: str, start: int) -> None:
    wanted = rates(SIDE_BY_SIDE[name])
    _, schedulers = live(SIDE_BY_SIDE[name], start)
    for group in (0, 1):
        scheduled = schedule_of(together(schedulers), group, steps=STEPS)
        assert scheduled.count == start
        assert isinstance(scheduled.learning_rate, port.pairs.expression.Expression)
        assert ("tabulated" not in scheduled.learning_rate.source()) == (name in FORMULAS)
        got = np.asarray(jax.vmap(scheduled.learning_rate.build())(jnp.arange(STEPS)))
        assert np.abs(got / wanted[:, group] - 1).max() <= 1e-12
        assert np.abs(got[:-1] / wanted[1:, group] - 1).max() > 1e-3, "the planted fault: a step too many"


def test_the_order_is_that_of_the_steps() -> None:
    """A cosine draws the rate that it finds to eta_min: behind the decay or before it, it is another rate."""

    def make(optimizer: Any) -> list[Any]:
        return [L.ExponentialLR(optimizer, 0.9), L.CosineAnnealingLR(optimizer, 25, 0.02)]

    _, schedulers = live(make, 5)
    wanted = rates(make)[:, 0]
    got = schedule_of(together(schedulers), 0, steps=STEPS).learning_rate
    assert np.abs(np.asarray(jax.vmap(got.build())(jnp.arange(STEPS))) / wanted - 1).max() <= 1e-12  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="Pass all schedulers of the optimizer together, in the order of their steps"):
        schedule_of(together(schedulers[::-1]), 0, steps=STEPS)


def test_one_that_is_not_told_of_is_seen(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    both = SIDE_BY_SIDE["warm-up and decay"](optimizer)
    optimizer.step()
    for scheduler in both * 3:
        scheduler.step()
    with pytest.raises(UsageError, match="something else has changed it"):
        port.to_optax(optimizer, scheduler=both[1], params=recorded.params, mapping=recorded.mapping)
    both[0].step()
    with pytest.raises(UsageError, match=r"LinearLR and ExponentialLR have taken \[3, 4\] steps"):
        port.to_optax(optimizer, scheduler=both, params=recorded.params, mapping=recorded.mapping)


@pytest.mark.parametrize("start", [0, 13])
def test_training_and_back(start: int, recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    schedulers = SIDE_BY_SIDE["decay and milestones"](optimizer)

    def both(gradients: Any) -> None:
        torch_step(module, optimizer, gradients)
        for scheduler in schedulers:
            scheduler.step()

    for gradients in recorded.gradients[:start]:
        both(gradients)
    given: dict[str, Any] = {"scheduler": schedulers, "mapping": recorded.mapping}
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation, state = port.to_optax(optimizer, params=params, **given)
    source = port.optax_source(optimizer, **given)
    assert "transforms.chained_lr(" in source
    assert "transforms.exponential_lr(0.1, gamma=0.97)" in source
    step = flax_steps(transformation)
    for gradients in recorded.gradients[start:40]:
        both(gradients)
        params, state = step(recorded.to_flax(gradients), state, params)
        assert distance(recorded.to_torch(params), module) <= 1e-10

    resumed = torch.optim.SGD(recorded.fresh().parameters(), lr=0.1, momentum=0.9)
    held = SIDE_BY_SIDE["decay and milestones"](resumed)
    port.load_optimizer(resumed, state, scheduler=held, mapping=recorded.mapping, params=recorded.params)
    assert resumed.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    assert [one.last_epoch for one in held] == [40, 40]


# %% ReduceLROnPlateau beside them


METRICS = [3.0, 2.0, 1.0, *[1.1] * (UPDATES - 3)]
"""It gets better three times, and then stays."""


def plateau(optimizer: Any) -> Any:
    return L.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, cooldown=2, min_lr=0.001)


BESIDE: dict[str, Callable[[Any], list[Any]]] = {
    "behind a warm-up": lambda o: [L.LinearLR(o, 0.2, 1.0, 20), plateau(o)],
    "before a decay": lambda o: [plateau(o), L.ExponentialLR(o, 0.93)],
    "behind two": lambda o: [L.LinearLR(o, 0.2, 1.0, 9), L.MultiStepLR(o, [7, 30], 0.8), plateau(o)],
}


def advance(schedulers: list[Any], metric: float) -> None:
    for scheduler in schedulers:
        scheduler.step(*([metric] if isinstance(scheduler, L.ReduceLROnPlateau) else []))


@pytest.mark.parametrize("start", [0, 17])
@pytest.mark.parametrize("name", BESIDE)
def test_a_plateau_beside_them(name: str, start: int, recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.3, momentum=0.9)
    schedulers = BESIDE[name](optimizer)
    for gradients, loss in zip(recorded.gradients[:start], METRICS, strict=False):
        torch_step(module, optimizer, gradients)
        advance(schedulers, loss)
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    given: dict[str, Any] = {"params": params, "mapping": recorded.mapping}
    transformation, state = port.to_optax(optimizer, scheduler=schedulers, **given)
    step, lowered = flax_steps(transformation), 0
    for gradients, loss in zip(recorded.gradients[start:], METRICS[start:], strict=True):
        torch_step(module, optimizer, gradients)
        before = optimizer.param_groups[0]["lr"]
        advance(schedulers, loss)
        params, state = step(recorded.to_flax(gradients), state, params, value=jnp.asarray(loss))
        assert float(state.plateau.learning_rate) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        assert distance(recorded.to_torch(params), module) <= 1e-10
        lowered += optimizer.param_groups[0]["lr"] < 0.7 * before
    assert lowered >= 2, "the plateau was met"

    resumed = torch.optim.SGD(recorded.fresh().parameters(), lr=0.3, momentum=0.9)
    held = BESIDE[name](resumed)
    port.load_optimizer(resumed, state, scheduler=held, mapping=recorded.mapping, params=recorded.params)
    assert resumed.param_groups[0]["lr"] == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
    for got, want in zip(held, schedulers, strict=True):
        for key in ("best", "num_bad_epochs", "cooldown_counter"):
            assert getattr(got, key, None) == getattr(want, key, None)
        assert isinstance(got, L.ReduceLROnPlateau) or got.last_epoch == want.last_epoch == len(recorded.gradients)


def test_a_plateau_and_a_schedule_by_epochs(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.3, momentum=0.9)
    schedulers = BESIDE["before a decay"](optimizer)
    params = recorded.params
    given: dict[str, Any] = {"params": params, "mapping": recorded.mapping, "steps_per_epoch": 3}
    transformation, state = port.to_optax(optimizer, scheduler=schedulers, **given)
    step = flax_steps(transformation)
    for place, (gradients, loss) in enumerate(zip(recorded.gradients, METRICS, strict=True)):
        torch_step(module, optimizer, gradients)
        ends = place % 3 == 2
        if ends:
            advance(schedulers, loss)
        metric = {"value": jnp.asarray(loss)} if ends else {}
        params, state = step(recorded.to_flax(gradients), state, params, **metric)
        assert float(state.plateau.learning_rate) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
    assert optimizer.param_groups[0]["lr"] < 0.3 * 0.93**20 / 2


def test_the_source_is_the_transformation(recorded: Recorded) -> None:
    optimizer = torch.optim.SGD(recorded.fresh().parameters(), lr=0.3, momentum=0.9)
    schedulers = BESIDE["before a decay"](optimizer)
    given: dict[str, Any] = {"scheduler": schedulers, "params": recorded.params, "mapping": recorded.mapping}
    source = port.optax_source(optimizer, **given)
    assert "transforms.exponential_lr(1.0, gamma=0.93)" in source
    assert "plateau_first=True" in source
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    transformation, state = port.to_optax(optimizer, **given)
    ours, theirs = flax_steps(transformation), flax_steps(namespace["optimizer"])
    params, others, other = recorded.params, recorded.params, namespace["optimizer"].init(recorded.params)
    for gradients, loss in zip(recorded.gradients[:9], METRICS, strict=False):
        params, state = ours(recorded.to_flax(gradients), state, params, value=jnp.asarray(loss))
        others, other = theirs(recorded.to_flax(gradients), other, others, value=jnp.asarray(loss))
    jax.tree.map(np.testing.assert_array_equal, (params, state), (others, other))


# %% What cannot be


def test_what_is_refused(recorded: Recorded) -> None:
    def told(make: Callable[[Any], list[Any]]) -> str:
        optimizer = torch.optim.SGD(recorded.fresh().parameters(), lr=0.3, momentum=0.9)
        with pytest.raises(UsageError) as caught:
            port.to_optax(optimizer, scheduler=make(optimizer), params=recorded.params, mapping=recorded.mapping)
        return str(caught.value)

    bends = "does not only multiply the present rate"
    assert f"CosineAnnealingLR {bends}" in told(lambda o: [L.CosineAnnealingLR(o, 9), plateau(o)])
    assert f"LambdaLR {bends}" in told(lambda o: [plateau(o), L.LambdaLR(o, lambda step: 0.9**step)])
    sequence = lambda o: L.SequentialLR(o, [L.LinearLR(o), L.StepLR(o, 3)], [5])  # noqa: E731
    assert f"SequentialLR {bends}" in told(lambda o: [sequence(o), plateau(o)])
    assert "one ReduceLROnPlateau, stepped before all" in told(lambda o: [plateau(o), plateau(o)])
    assert "pass it first or last" in told(lambda o: [L.StepLR(o, 3), plateau(o), L.ExponentialLR(o, 0.9)])
    assert "whole numbers of steps" in told(lambda o: [L.StepLR(o, 2.5), plateau(o)])  # type: ignore[arg-type]
    assert "passed twice (StepLR and StepLR)" in told(lambda o: [L.StepLR(o, 3)] * 2)


def test_what_they_are_together() -> None:
    optimizer, schedulers = live(BESIDE["behind two"])
    both = together(schedulers)
    assert isinstance(both, WithPlateau)
    assert (both.plateau, both.plateau_first) == (schedulers[2], False)
    assert both.scheduler._schedulers == schedulers[:2]  # type: ignore[attr-defined]
    assert together(schedulers[:1]) is schedulers[0]
    before = [group["lr"] for group in optimizer.param_groups]
    assert isinstance(together(schedulers[:2]), L.ChainedScheduler)
    assert [group["lr"] for group in optimizer.param_groups] == before, "nothing was stepped"
