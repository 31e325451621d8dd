"""`port.to_optax` around the step itself: groups, what is frozen, clipping, schedules, accumulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import pytest
import torch
from torch.optim import lr_scheduler

import port
from models.recorded import STEPS, Recorded, both, convnet, distance, flax_steps, torch_step
from port.errors import UsageError

LIMIT = 1e-10
VISIBLE = 1e-7
LONG = partial(pytest.param, marks=pytest.mark.sweep)


# %% Groups


def grouped(module: torch.nn.Module, cls: Any = torch.optim.AdamW, **options: Any) -> torch.optim.Optimizer:
    matrices = [p for p in module.parameters() if p.ndim > 1]
    vectors = [p for p in module.parameters() if p.ndim == 1]
    return cls(
        [{"params": matrices, "weight_decay": 0.3}, {"params": vectors, "weight_decay": 0.0, "lr": 3e-2}], **options
    )


@pytest.mark.parametrize("start", [0, 20])
@pytest.mark.parametrize("cls", [torch.optim.AdamW, *map(LONG, [torch.optim.SGD, torch.optim.Adafactor])])
def test_groups_keep_their_own_options(cls: Any, start: int, recorded: Recorded) -> None:
    module = recorded.fresh()
    options = {"momentum": 0.9, "dampening": 0.2} if cls is torch.optim.SGD else {}
    assert both(recorded, module, grouped(module, cls, lr=1e-2, **options), start=start) <= LIMIT


def test_a_groups_decay_given_to_the_other_is_seen(recorded: Recorded) -> None:
    module, other = recorded.fresh(), recorded.fresh()
    optimizer, wrong = grouped(module, lr=1e-2), grouped(other, lr=1e-2)
    for group, decay in zip(wrong.param_groups, (0.0, 0.3), strict=True):
        group["weight_decay"] = decay
    transformation, state = port.to_optax(wrong, params=recorded.params, mapping=recorded.mapping)
    step, params = flax_steps(transformation), recorded.params
    torch_step(module, optimizer, recorded.gradients[0])
    params, _ = step(recorded.to_flax(recorded.gradients[0]), state, params)
    assert distance(recorded.to_torch(params), module) > VISIBLE


@pytest.mark.parametrize("how", ["requires no gradient", "in no group"])
def test_O19_what_is_frozen_is_not_touched(how: str, recorded: Recorded) -> None:
    module = recorded.fresh()
    if how == "requires no gradient":
        module.fc1.weight.requires_grad_(False)
        optimizer = torch.optim.AdamW(module.parameters(), weight_decay=0.2, lr=1e-2)
    else:
        left = [p for name, p in module.named_parameters() if name != "fc1.weight"]
        optimizer = torch.optim.AdamW(left, weight_decay=0.2, lr=1e-2)
    # torch's norm does not know the frozen one's gradient; ours is given it.
    trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    clip = lambda: torch.nn.utils.clip_grad_norm_(trained, 0.1)  # noqa: E731
    assert both(recorded, module, optimizer, before=clip, clip_norm=0.1) <= LIMIT
    assert torch.equal(module.fc1.weight, recorded.module.fc1.weight)


def test_parameters_stepped_unequally_often(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    for gradients in recorded.gradients[:7]:
        torch_step(module, optimizer, gradients, lambda: setattr(module.fc2.bias, "grad", None))
    assert both(recorded, module, optimizer, until=20) <= LIMIT


def test_two_optimizers_share_the_parameters_out(recorded: Recorded) -> None:
    module = recorded.fresh()
    matrices = [p for p in module.parameters() if p.ndim > 1]
    vectors = [p for p in module.parameters() if p.ndim == 1]
    two = [torch.optim.SGD(matrices, lr=0.1, momentum=0.9), torch.optim.RMSprop(vectors, lr=1e-3)]
    params = recorded.params
    transformation, state = port.to_optax(two, params=params, mapping=recorded.mapping)
    step = flax_steps(transformation)
    for gradients in recorded.gradients[:20]:
        torch_step(module, two[0], gradients)
        two[1].step()
        params, state = step(recorded.to_flax(gradients), state, params)
    assert distance(recorded.to_torch(params), module) <= LIMIT


# %% Clipping and accumulation


@pytest.mark.parametrize("norm_type", [2.0, LONG(1.0), LONG(float("inf"))])
def test_O13_clipped_by_norm(norm_type: float, recorded: Recorded) -> None:
    module = recorded.fresh()
    clip = lambda: torch.nn.utils.clip_grad_norm_(module.parameters(), 0.05, norm_type)  # noqa: E731
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    assert both(recorded, module, optimizer, before=clip, clip_norm=0.05, norm_type=norm_type) <= LIMIT


def test_clipped_by_value(recorded: Recorded) -> None:
    module = recorded.fresh()
    clip = lambda: torch.nn.utils.clip_grad_value_(module.parameters(), 0.01)  # noqa: E731
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    assert both(recorded, module, optimizer, before=clip, clip_value=0.01) <= LIMIT


@pytest.mark.parametrize("mean", [False, True])
def test_O18_accumulated(mean: bool, recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.8)
    params = recorded.params
    transformation, state = port.to_optax(
        optimizer,
        scheduler=scheduler,
        params=params,
        mapping=recorded.mapping,
        clip_norm=0.3,
        accumulate=4,
        accumulate_mean=mean,
    )
    step = flax_steps(transformation)
    for place in range(0, 20, 4):
        optimizer.zero_grad()
        for gradients in recorded.gradients[place : place + 4]:
            for name, parameter in module.named_parameters():
                gradient = gradients[name] / 4 if mean else gradients[name]
                parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad + gradient
            params, state = step(recorded.to_flax(gradients), state, params)
        torch.nn.utils.clip_grad_norm_(module.parameters(), 0.3)
        optimizer.step()
        scheduler.step()
        assert distance(recorded.to_torch(params), module) <= LIMIT


# %% Schedules

SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 25, eta_min=1e-4),
    "warm-up, then steps": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer, 0.1, total_iters=8), lr_scheduler.StepLR(optimizer, 9, 0.5)],
        milestones=[8],
    ),
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=STEPS + 1),
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=1e-2),
    "adamw": lambda params: torch.optim.AdamW(params, lr=0.01),
    "nadam": lambda params: torch.optim.NAdam(params, lr=0.01, betas=(0.8, 0.99)),
    "rmsprop": lambda params: torch.optim.RMSprop(params, lr=0.01, momentum=0.7, centered=True, alpha=0.9),
    "asgd": lambda params: torch.optim.ASGD(params, lr=0.1),
    "adafactor": lambda params: torch.optim.Adafactor(params, lr=0.1),
    "rprop": lambda params: torch.optim.Rprop(params, lr=0.01),
}
MOMENTUM = {"sgd", "adamw", "nadam", "rmsprop"}


@pytest.mark.parametrize("start", [0, 13])
@pytest.mark.parametrize(
    ("optimizer", "schedule"),
    [
        pytest.param(o, s, marks=() if (o, s) in (("sgd", "one cycle"), ("asgd", "cosine")) else pytest.mark.sweep)
        for o in OPTIMIZERS
        for s in SCHEDULES
        if s != "one cycle" or o in MOMENTUM
    ],
)
def test_scheduled(optimizer: str, schedule: str, start: int, recorded: Recorded) -> None:
    module = recorded.fresh()
    made = OPTIMIZERS[optimizer](module.parameters())
    scheduler = SCHEDULES[schedule](made)
    after = lambda step: scheduler.step()  # noqa: E731
    assert both(recorded, module, made, after=after, start=start, scheduler=scheduler) <= LIMIT


@pytest.mark.parametrize("start", [0, 10, 13])
def test_O14_stepped_per_epoch(start: int, recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    after = lambda step: scheduler.step() if step % 5 == 4 else None  # noqa: E731
    found = both(recorded, module, optimizer, after=after, start=start, scheduler=scheduler, steps_per_epoch=5)
    assert found <= LIMIT


def test_a_python_function_is_tabulated_and_says_where_it_ends(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step) ** 0.5 if step else 1.0)
    with pytest.raises(UsageError, match="steps"):
        port.to_optax(optimizer, scheduler=scheduler, params=recorded.params, mapping=recorded.mapping)
    after = lambda step: scheduler.step()  # noqa: E731
    assert both(recorded, module, optimizer, after=after, scheduler=scheduler, steps=STEPS) <= LIMIT


def test_a_lambda_that_jax_can_trace_needs_no_steps(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step) ** 0.5)
    after = lambda step: scheduler.step()  # noqa: E731
    assert both(recorded, module, optimizer, after=after, scheduler=scheduler) <= LIMIT


@pytest.mark.parametrize("start", [0, 17])
def test_on_a_plateau(start: int, recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.3, momentum=0.9)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3, cooldown=2)
    for place in range(start):
        torch_step(module, optimizer, recorded.gradients[place])
        scheduler.step(recorded.losses[place])
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation, state = port.to_optax(optimizer, scheduler=scheduler, params=params, mapping=recorded.mapping)
    step, rates = flax_steps(transformation), set()
    for gradients, loss in zip(recorded.gradients[start:], recorded.losses[start:], strict=True):
        torch_step(module, optimizer, gradients)
        scheduler.step(loss)
        params, state = step(recorded.to_flax(gradients), state, params, value=jnp.asarray(loss))
        assert distance(recorded.to_torch(params), module) <= LIMIT
        rates.add(optimizer.param_groups[0]["lr"])
    assert len(rates) > 2

    back = recorded.fresh()
    resumed = torch.optim.SGD(back.parameters(), lr=0.3, momentum=0.9)
    plateau = lr_scheduler.ReduceLROnPlateau(resumed, factor=0.5, patience=3, cooldown=2)
    port.load_optimizer(resumed, state, scheduler=plateau, mapping=recorded.mapping, model=back)
    assert resumed.param_groups[0]["lr"] == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
    for name in ("best", "num_bad_epochs", "cooldown_counter"):
        assert getattr(plateau, name) == pytest.approx(getattr(scheduler, name), rel=1e-12)


def test_a_scheduler_of_another_optimizer_is_refused(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer, other = (torch.optim.SGD(module.parameters(), lr=0.1) for _ in range(2))
    with pytest.raises(UsageError, match="StepLR is attached to another optimizer"):
        port.to_optax(
            optimizer,
            scheduler=lr_scheduler.StepLR(other, 3),
            params=recorded.params,
            mapping=recorded.mapping,
        )


# %% A learning rate that is a tensor


@pytest.mark.parametrize("schedule", ["cosine", "one cycle"])
def test_a_float32_rate_is_rounded_as_torch_rounds_it_where_it_is_written_out(
    schedule: str, recorded: Recorded
) -> None:
    found = {}
    for steps in (None, STEPS + 1):
        module = recorded.fresh()
        optimizer = torch.optim.SGD(module.parameters(), lr=torch.tensor(0.1), momentum=0.9)
        scheduler = SCHEDULES[schedule](optimizer)
        given: dict[str, Any] = {"after": lambda step, it=scheduler: it.step(), "start": 13, "until": 25}
        found[steps] = both(recorded, module, optimizer, scheduler=scheduler, steps=steps, **given)
    assert found[STEPS + 1] <= LIMIT
    assert LIMIT < found[None] <= 25 * 6e-8


def test_what_adam_computes_with_a_float32_rate_is_rounded(recorded: Recorded) -> None:
    for decay in (0.0, 0.3):
        module = recorded.fresh()
        optimizer = torch.optim.AdamW(module.parameters(), lr=torch.tensor(0.1), weight_decay=decay)
        assert LIMIT < both(recorded, module, optimizer, until=10) <= 10 * 6e-8


def test_a_long_run_of_a_float32_rate_is_known_for_its_schedulers(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=torch.tensor(0.1))
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.9999)
    optimizer.step()
    for _ in range(2000):
        scheduler.step()
    given: dict[str, Any] = {"params": recorded.params, "mapping": recorded.mapping, "scheduler": scheduler}
    port.to_optax(optimizer, **given)
    with torch.no_grad():
        optimizer.param_groups[0]["lr"] *= 1.1
    with pytest.raises(UsageError, match="something else has changed it"):
        port.to_optax(optimizer, **given)


# %% What is refused


def test_what_is_no_optimizer(recorded: Recorded) -> None:
    module = recorded.fresh()
    given: dict[str, Any] = {"params": recorded.params, "mapping": recorded.mapping}
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for strange, said in (
        ("adam", "got str"),
        (None, "got NoneType"),
        (torch.optim.SGD, "got the class SGD"),
        (optimizer.state_dict(), "got dict"),
        ([optimizer, "adam"], "got str"),
        ([], "got an empty list"),
    ):
        for call in (port.to_optax, port.optax_source):
            with pytest.raises(UsageError, match=f"expected a torch optimizer.*{said}"):
                call(strange, **given)


def test_what_is_no_mapping_no_parameters_and_no_scheduler(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer: Any = torch.optim.SGD(module.parameters(), lr=0.1)
    given: dict[str, Any] = {"params": recorded.params, "mapping": recorded.mapping}
    for strange, said in ((None, "None"), ("mapping.toml", "str"), ({}, "dict")):
        with pytest.raises(UsageError, match=rf"expected a port\.mapping\.Mapping, got {said}; one is"):
            port.to_optax(optimizer, **{**given, "mapping": strange})
    with pytest.raises(UsageError, match=r"expected the Flax parameters, got None"):
        port.to_optax(optimizer, **{**given, "params": None})
    for strange, said in (("cosine", "str"), (lr_scheduler.StepLR, "the class StepLR"), ([""], "str")):
        with pytest.raises(UsageError, match=rf"expected a scheduler of torch\.optim\.lr_scheduler, got {said}"):
            port.to_optax(optimizer, scheduler=strange, **given)


def test_a_plateau_of_ones_own(recorded: Recorded) -> None:
    class Own(lr_scheduler.ReduceLROnPlateau):
        pass

    optimizer = torch.optim.SGD(recorded.fresh().parameters(), lr=0.1)
    with pytest.raises(UsageError, match=r"Own is derived from ReduceLROnPlateau"):
        port.to_optax(optimizer, scheduler=Own(optimizer), params=recorded.params, mapping=recorded.mapping)


@pytest.mark.sweep
def test_the_convnets_moments_are_permuted() -> None:
    recorded = convnet()
    module = recorded.fresh()
    assert both(recorded, module, torch.optim.Adam(module.parameters(), lr=1e-2), start=15, until=30) <= LIMIT
