"""`port.load_optimizer`: each parameter gets what the state holds of it, or nothing is changed at all."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from torch.optim import lr_scheduler as L

import port
from models.recorded import Recorded, distance, flax_steps, loose, state_distance, torch_step
from port.errors import PortError, UsageError, WeightsMismatch

LIMIT = 1e-10
VISIBLE = 1e-7
Make = Callable[[torch.nn.Module], torch.optim.Optimizer]


def adam(module: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters(), lr=0.02)


def momentum(module: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)


def two_groups(module: torch.nn.Module, cls: Any = torch.optim.Adam) -> torch.optim.Optimizer:
    matrices, vectors = ([p for p in module.parameters() if (p.ndim > 1) is wanted] for wanted in (True, False))
    return cls([{"params": matrices, "lr": 0.03}, {"params": vectors}], lr=0.02)


def plateau(optimizer: Any) -> Any:
    return L.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1)


def in_torch(recorded: Recorded, module: Any, optimizer: Any, steps: range, none: tuple[str, ...] = ()) -> None:
    """torch's steps; those named have no gradient."""
    parameters = dict(module.named_parameters())
    for place in steps:
        without = lambda: [setattr(parameters[name], "grad", None) for name in none]  # noqa: E731
        torch_step(module, optimizer, recorded.gradients[place], without)


def in_jax(recorded: Recorded, module: Any, optimizer: Any, steps: range, **options: Any) -> tuple[Any, Any]:
    """The parameters and the state when JAX has gone on with a torch optimizer."""
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation, state = port.to_optax(optimizer, params=params, mapping=recorded.mapping, model=module, **options)
    step = flax_steps(transformation)
    for place in steps:
        params, state = step(recorded.to_flax(recorded.gradients[place]), state, params)
    return params, state


def put(module: torch.nn.Module, recorded: Recorded, params: Any) -> torch.nn.Module:
    """The module with Flax parameters."""
    named = {name: torch.from_numpy(array.copy()) for name, array in recorded.to_torch(params).items()}
    module.load_state_dict({**module.state_dict(), **named})
    return module


def apart(module: torch.nn.Module, other: torch.nn.Module) -> float:
    return distance({name: p.detach().numpy() for name, p in module.named_parameters()}, other)


def snapshot(*things: Any) -> Any:
    return copy.deepcopy([thing.state_dict() for thing in things])


def same(before: Any, *things: Any) -> bool:
    (ours, shape), (theirs, other) = (jax.tree.flatten(held) for held in (before, snapshot(*things)))
    return shape == other and all(bool(torch.as_tensor(a == b).all()) for a, b in zip(ours, theirs, strict=True))


# %% Whatever the labels are


@pytest.mark.parametrize("target", ["fresh", "the same", "stepped further"])
@pytest.mark.parametrize("model", ["mlp", "loose"])
@pytest.mark.thin(3)
def test_parameters_stepped_unequally_often(target: str, model: str, recorded: Recorded) -> None:
    recorded, late = (recorded, "fc2.bias") if model == "mlp" else (loose(), "one")  # "one" is stacked upon "two"
    module = recorded.fresh()
    optimizer = adam(module)
    in_torch(recorded, module, optimizer, range(2), none=(late,))
    in_torch(recorded, module, optimizer, range(2, 5))
    params, state = in_jax(recorded, module, optimizer, range(5, 8))
    back = put(copy.deepcopy(module), recorded, params)
    resumed = adam(back)
    if target != "fresh":
        resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    if target == "stepped further":
        in_torch(recorded, back, resumed, range(5, 9))
        put(back, recorded, params)
    port.load_optimizer(resumed, state, mapping=recorded.mapping, params=params, model=back)
    in_torch(recorded, module, optimizer, range(5, 8))
    assert state_distance(resumed, optimizer) <= LIMIT
    steps = {name: resumed.state[p]["step"].item() for name, p in back.named_parameters()}
    assert steps == {name: 6.0 if name == late else 8.0 for name in steps}
    for both in ((module, optimizer), (back, resumed)):
        in_torch(recorded, *both, range(8, 12))
    assert apart(back, module) <= LIMIT
    # The planted fault: the one as often stepped as the others.
    port.load_optimizer(resumed, state, mapping=recorded.mapping, params=params, model=back)
    resumed.state[dict(back.named_parameters())[late]]["step"] += 2
    in_torch(recorded, put(back, recorded, params), resumed, range(8, 12))
    assert apart(back, module) > VISIBLE


@pytest.mark.parametrize(("first", "then"), [(two_groups, adam), (adam, two_groups)])
def test_groups_shared_out_otherwise(first: Make, then: Make, recorded: Recorded) -> None:
    module, back = recorded.fresh(), recorded.fresh()
    optimizer, resumed = first(module), then(back)
    _, state = in_jax(recorded, module, optimizer, range(4))
    in_torch(recorded, module, optimizer, range(4))
    port.load_optimizer(resumed, state, mapping=recorded.mapping, model=back)
    for ours, theirs in zip(back.parameters(), module.parameters(), strict=True):
        for key, value in optimizer.state[theirs].items():
            torch.testing.assert_close(resumed.state[ours][key], value, rtol=LIMIT, atol=0)


@pytest.mark.parametrize("cls", [torch.optim.SGD, torch.optim.Adam])
def test_two_optimizers_with_schedules_of_their_own(cls: Any, recorded: Recorded) -> None:
    def make(module: Any) -> tuple[list[Any], list[Any]]:
        whole = two_groups(module, cls)
        optimizers = [cls(group["params"], lr=group["lr"]) for group in whole.param_groups]
        return optimizers, [L.StepLR(optimizers[0], 2, 0.5), L.ExponentialLR(optimizers[1], 0.9)]

    module, back = recorded.fresh(), recorded.fresh()
    optimizers, schedulers = make(module)
    for count, (optimizer, scheduler) in enumerate(zip(optimizers, schedulers, strict=True), 1):
        for _ in range(count):  # so that they stand at different places
            in_torch(recorded, module, optimizer, range(1))
            scheduler.step()
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    _, state = port.to_optax(optimizers, params=params, mapping=recorded.mapping, scheduler=schedulers, model=module)
    resumed, fresh = make(back)
    port.load_optimizer(resumed, state, mapping=recorded.mapping, scheduler=fresh, model=back)
    assert [one.last_epoch for one in fresh] == [1, 2]
    assert [one.get_last_lr() for one in fresh] == [one.get_last_lr() for one in schedulers]


# %% What is not the optimizer's own

OTHERS: dict[str, tuple[Make, Make, str]] = {
    "amsgrad from Adam": (
        lambda m: torch.optim.Adam(m.parameters(), amsgrad=True),
        adam,
        "has exp_avg, exp_avg_sq, step, the optimizer stores exp_avg, exp_avg_sq, max_exp_avg_sq, step",
    ),
    "Adam from amsgrad": (adam, lambda m: torch.optim.Adam(m.parameters(), amsgrad=True), "has exp_avg, exp_avg_sq,"),
    "RMSprop from a plainer one": (
        lambda m: torch.optim.RMSprop(m.parameters(), momentum=0.9, centered=True),
        lambda m: torch.optim.RMSprop(m.parameters()),
        "stores grad_avg, momentum_buffer, square_avg",
    ),
    "SGD from Adam": (momentum, adam, "has ScaleByAdamState.count, ScaleByAdamState.mu"),
    "SGD from one without momentum": (
        momentum,
        lambda m: torch.optim.SGD(m.parameters()),
        "for fc1.weight, fc1.bias, fc2.weight and 1 more it has nothing, the optimizer stores momentum_buffer",
    ),
    "SGD without momentum from one with": (lambda m: torch.optim.SGD(m.parameters()), momentum, "stores nothing"),
    "RAdam from Adam": (lambda m: torch.optim.RAdam(m.parameters()), adam, "ScaleByAdamState"),
    "Adam from LBFGS": (
        adam,
        lambda m: torch.optim.LBFGS(m.parameters()),
        "TorchLbfgsState, the memory of torch.optim.LBFGS; expected 0, for torch.optim.Adam",
    ),
    "LBFGS from Adam": (lambda m: torch.optim.LBFGS(m.parameters()), adam, "has 0 TorchLbfgsState"),
    "fewer parameters": (lambda m: torch.optim.Adam(m.fc1.parameters()), adam, "fc2.bias, fc2.weight, which torch's"),  # type: ignore[union-attr, operator]
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_state_of_another_is_refused(name: str, recorded: Recorded) -> None:
    make, other, message = OTHERS[name]
    module = recorded.fresh()
    optimizer = make(module)
    if not isinstance(optimizer, torch.optim.LBFGS):
        in_torch(recorded, module, optimizer, range(2))
    _, own = in_jax(recorded, module, optimizer, range(0))
    _, state = in_jax(recorded, module, other(module), range(0))
    before = snapshot(optimizer)
    with pytest.raises(WeightsMismatch) as caught:
        port.load_optimizer(optimizer, state, mapping=recorded.mapping, model=module)
    assert message in str(caught.value)
    assert same(before, optimizer)
    port.load_optimizer(optimizer, own, mapping=recorded.mapping, model=module)


def test_the_state_of_another_model_is_refused(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = adam(module)
    _, state = in_jax(recorded, module, optimizer, range(1))
    other = loose()
    with pytest.raises(WeightsMismatch, match=r"has no parameter fc1\.bias, fc1\.kernel, fc2\.bias and 1 more"):
        port.load_optimizer(adam(other.fresh()), state, mapping=other.mapping, params=other.params)
    transposed = jax.tree.map(jnp.transpose, state)
    with pytest.raises(WeightsMismatch, match=r"fc1\.weight: the state's exp_avg has shape \(5, 7\), torch's is \(7,"):
        port.load_optimizer(optimizer, transposed, mapping=recorded.mapping, model=module)
    with pytest.raises(WeightsMismatch, match=r"kernel"):
        port.load_optimizer(optimizer, jax.tree.map(lambda a: a[None], state), mapping=recorded.mapping, model=module)
    assert not optimizer.state


def test_lbfgs_memory_of_other_parameters_is_refused(recorded: Recorded) -> None:
    module, other = recorded.fresh(), loose()
    memories = []
    for held in (module, other.fresh()):
        optimizer = torch.optim.LBFGS(held.parameters(), max_iter=2)

        def closure(held: Any = held, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = sum((p**2).sum() for p in held.parameters())
            loss.backward()
            return loss

        optimizer.step(closure)
        params = (recorded if held is module else other).params
        mapping = (recorded if held is module else other).mapping
        memories.append(port.to_optax(optimizer, params=params, mapping=mapping, model=held)[1])
    optimizer = torch.optim.LBFGS(module.parameters(), max_iter=2)
    with pytest.raises(WeightsMismatch, match=r"vectors of shape \(72,\); .* have 66 elements"):
        port.load_optimizer(optimizer, memories[1], mapping=recorded.mapping, model=module)
    assert not optimizer.state
    port.load_optimizer(optimizer, memories[0], mapping=recorded.mapping, model=module)
    assert optimizer.state


@pytest.mark.parametrize("dampening", [0.0, 0.3])
def test_a_fresh_state_makes_a_used_optimizer_fresh(dampening: float, recorded: Recorded) -> None:
    make = lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, dampening=dampening)  # noqa: E731
    module, fresh = recorded.fresh(), recorded.fresh()
    optimizer, other = make(module), make(fresh)
    params, state = in_jax(recorded, module, optimizer, range(0))
    in_torch(recorded, module, optimizer, range(5))
    put(module, recorded, params)
    port.load_optimizer(optimizer, state, mapping=recorded.mapping, model=module)
    assert dampening == 0.0 or not optimizer.state
    for both in ((module, optimizer), (fresh, other)):
        in_torch(recorded, *both, range(3))
    assert apart(module, fresh) <= LIMIT


# %% Schedulers


@pytest.mark.parametrize(
    ("total", "taken", "why"), [(20, 9, "has taken 9 steps, and cannot go back to 8"), (6, 2, "failed at step 7 of 8")]
)
def test_a_scheduler_that_cannot_be_placed_leaves_all_as_it_was(
    total: int, taken: int, why: str, recorded: Recorded
) -> None:
    module, back = recorded.fresh(), recorded.fresh()
    optimizer, resumed = momentum(module), momentum(back)
    _, state = in_jax(recorded, module, optimizer, range(8), scheduler=L.OneCycleLR(optimizer, 0.3, total_steps=20))
    scheduler = L.OneCycleLR(resumed, 0.3, total_steps=total)
    for place in range(taken):
        in_torch(recorded, back, resumed, range(place, place + 1))
        scheduler.step()
    before = snapshot(resumed, scheduler)
    with pytest.raises(UsageError, match=why):
        port.load_optimizer(resumed, state, mapping=recorded.mapping, scheduler=scheduler, model=back)
    assert same(before, resumed, scheduler)


PLATEAUS: dict[str, tuple[Any, tuple[str, ...], tuple[str, ...]]] = {
    "two groups without moments": (lambda m: two_groups(m, torch.optim.SGD), (), ()),
    "a frozen group": (two_groups, (), ("fc1.weight", "fc2.weight")),
    "a frozen group without moments": (lambda m: two_groups(m, torch.optim.SGD), (), ("fc1.weight", "fc2.weight")),
    "unequally stepped": (adam, ("fc2.bias",), ()),
}


@pytest.mark.parametrize("name", PLATEAUS)
def test_a_plateau_comes_back(name: str, recorded: Recorded) -> None:
    make, late, frozen = PLATEAUS[name]

    def fresh() -> torch.nn.Module:
        module = recorded.fresh()
        for parameter in frozen:
            module.get_parameter(parameter).requires_grad_(False)
        return module

    module, back = fresh(), fresh()
    optimizer, resumed = make(module), make(back)
    scheduler, ours = plateau(optimizer), plateau(resumed)
    metrics = [3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    for place in range(6):
        in_torch(recorded, module, optimizer, range(place, place + 1), none=late if place == 0 else ())
        scheduler.step(metrics[place])
    params, state = in_jax(recorded, module, optimizer, range(0), scheduler=scheduler)
    put(back, recorded, params)
    port.load_optimizer(resumed, state, mapping=recorded.mapping, scheduler=ours, model=back)
    trained = [any(p.requires_grad for p in group["params"]) for group in optimizer.param_groups]
    rates = lambda one: [g["lr"] for g, own in zip(one.param_groups, trained, strict=True) if own]  # noqa: E731
    assert rates(resumed) == rates(optimizer) != rates(make(fresh()))
    for place in range(6, 12):
        for both in ((module, optimizer), (back, resumed)):
            in_torch(recorded, *both, range(place, place + 1))
        scheduler.step(metrics[place])
        ours.step(metrics[place])
        assert rates(resumed) == rates(optimizer)
    assert apart(back, module) <= LIMIT


def test_what_the_state_says_of_a_scheduler_is_asked_for(recorded: Recorded) -> None:
    def told(state: Any, make: Any) -> str:
        optimizer = adam(module)
        scheduler = make(optimizer)
        before = snapshot(optimizer)
        with pytest.raises(PortError) as caught:
            port.load_optimizer(optimizer, state, mapping=recorded.mapping, scheduler=scheduler, model=module)
        assert same(before, optimizer)
        return str(caught.value)

    module = recorded.fresh()
    nothing, steps = (lambda o: None), (lambda o: L.StepLR(o, 3))
    made = adam(module)
    _, on_a_plateau = in_jax(recorded, module, made, range(1), scheduler=plateau(made))
    assert "the current rate of a ReduceLROnPlateau, 0.02: pass torch's" in told(on_a_plateau, nothing)
    _, without = in_jax(recorded, module, adam(module), range(1))
    assert "made without a ReduceLROnPlateau" in told(without, plateau)
    assert "has no position for the StepLR" in told(without, steps)

    # A schedule's rate is the scheduler's own, which may be brought back by itself.
    made = adam(module)
    _, scheduled = in_jax(recorded, module, made, range(4), scheduler=steps(made))
    resumed = adam(module)
    port.load_optimizer(resumed, scheduled, mapping=recorded.mapping, model=module)
    assert resumed.param_groups[0]["lr"] == 0.02
    resumed = adam(module)
    port.load_optimizer(resumed, scheduled, mapping=recorded.mapping, scheduler=steps(resumed), model=module)
    assert resumed.param_groups[0]["lr"] == pytest.approx(0.002, rel=1e-12)


def test_the_count_of_an_optimizer_that_keeps_none_in_optax(recorded: Recorded) -> None:
    """From ``step``, from the place of the schedule, or left as torch has it."""
    module = recorded.fresh()
    make = lambda: torch.optim.RMSprop(module.parameters())  # noqa: E731
    made = make()
    in_torch(recorded, module, made, range(2))
    _, scheduled = in_jax(recorded, module, make(), range(0))
    steps = lambda one: {state["step"].item() for state in one.state.values()}  # noqa: E731
    port.load_optimizer(made, scheduled, mapping=recorded.mapping, model=module)
    assert steps(made) == {2.0}
    port.load_optimizer(made, scheduled, mapping=recorded.mapping, model=module, step=7)
    assert steps(made) == {7.0}
    other = make()
    _, scheduled = in_jax(recorded, module, other, range(4), scheduler=L.StepLR(other, 3))
    port.load_optimizer(made, scheduled, mapping=recorded.mapping, model=module)
    assert steps(made) == {4.0}
