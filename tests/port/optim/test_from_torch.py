"""`port.to_optax` around the step itself: groups, what is frozen, clipping, schedules, accumulation, layouts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch.optim import lr_scheduler

import port
from models.recorded import STEPS, Recorded, convnet, distance, flax_steps, mlp, torch_step
from port.errors import UsageError, WeightsMismatch
from port.mapping import Entry, Mapping
from port.moves import Permute, Split, Stack

LIMIT = 1e-10
VISIBLE = 1e-7
LONG = partial(pytest.param, marks=pytest.mark.sweep)


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    with jax.enable_x64(True):
        return mlp()


def both(
    recorded: Recorded,
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    before: Callable[[], object] = lambda: None,
    after: Callable[[int], object] = lambda step: None,
    start: int = 0,
    until: int = STEPS,
    **options: Any,
) -> float:
    """The largest distance over a run: in torch with ``before`` and ``after`` each step, in JAX with the options."""
    for place in range(start):
        torch_step(module, optimizer, recorded.gradients[place], before)
        after(place)
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation, state = port.to_optax(optimizer, params=params, mapping=recorded.mapping, model=module, **options)
    step, worst = flax_steps(transformation), 0.0
    for place, gradients in enumerate(recorded.gradients[start:until], start):
        torch_step(module, optimizer, gradients, before)
        after(place)
        params, state = step(recorded.to_flax(gradients), state, params)
        worst = max(worst, distance(recorded.to_torch(params), module))
    return worst


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
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step) ** 0.5)
    with pytest.raises(UsageError, match="steps"):
        port.to_optax(optimizer, scheduler=scheduler, params=recorded.params, mapping=recorded.mapping)
    after = lambda step: scheduler.step()  # noqa: E731
    assert both(recorded, module, optimizer, after=after, scheduler=scheduler, steps=STEPS) <= LIMIT


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


# %% Layouts


class Loose(torch.nn.Module):
    """Parameters that Flax keeps otherwise: three in one, one of two."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        draw = lambda *shape: torch.nn.Parameter(torch.randn(shape, generator=generator).double())  # noqa: E731
        self.qkv = draw(9, 4)
        self.one, self.two = draw(5, 3), draw(5, 3)
        self.bias = draw(6)


LOOSE = Mapping(
    (
        Entry(("qkv",), ("q", "k", "v"), (Split(0, (3, 3, 3)), Permute((1, 0)))),
        Entry(("one", "two"), ("stack",), (Permute((1, 0)), Stack(0, 2))),
        Entry(("bias",), ("bias",)),
    )
)


@pytest.fixture(scope="module")
def loose() -> Recorded:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        module = Loose()
        gradients = [{name: torch.randn_like(p) for name, p in module.named_parameters()} for _ in range(STEPS)]
    arrays = {name: p.detach().numpy() for name, p in module.named_parameters()}
    with jax.enable_x64(True):
        params = {path: jnp.asarray(array) for path, array in LOOSE(arrays).items()}
        return Recorded(module, params, LOOSE, gradients)  # type: ignore[arg-type]


@pytest.mark.parametrize("start", [0, 30])
@pytest.mark.parametrize(
    "cls", [torch.optim.Adam, torch.optim.Adafactor, *map(LONG, [torch.optim.SGD, torch.optim.Rprop])]
)
def test_moments_follow_their_weight(cls: Any, start: int, loose: Recorded) -> None:
    module = loose.fresh()
    options = {"momentum": 0.9} if cls is torch.optim.SGD else {}
    assert both(loose, module, cls(module.parameters(), lr=1e-2, **options), start=start) <= LIMIT


def test_two_layers_in_one_parameter_may_have_options_of_their_own(loose: Recorded) -> None:
    module = loose.fresh()
    first, others = [module.one], [module.qkv, module.two, module.bias]
    optimizer = torch.optim.Adam([{"params": first, "lr": 0.1}, {"params": others}], lr=1e-3)
    assert both(loose, module, optimizer, start=10) <= LIMIT


# %% Which parameter is which


def test_names_in_the_optimizer_tell(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.Adam(list(module.named_parameters())[::-1], lr=1e-2)
    assert both(recorded, module, optimizer, until=5) <= LIMIT


def test_a_changed_order_is_told_by_the_values(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.Adam(list(module.parameters())[::-1], lr=1e-2)
    transformation, state = port.to_optax(optimizer, params=recorded.params, mapping=recorded.mapping)
    torch_step(module, optimizer, recorded.gradients[0])
    params, _ = flax_steps(transformation)(recorded.to_flax(recorded.gradients[0]), state, recorded.params)
    assert distance(recorded.to_torch(params), module) <= LIMIT


def test_what_cannot_be_told_apart_is_refused_with_the_names(loose: Recorded) -> None:
    module = loose.fresh()
    with torch.no_grad():
        module.one.zero_()
        module.two.zero_()
    params = loose.to_flax({name: p.detach() for name, p in module.named_parameters()})
    optimizer = torch.optim.Adam([{"params": [module.two]}, {"params": [module.one, module.qkv, module.bias]}])
    with pytest.raises(UsageError, match=r"group 0, shape \(5, 3\), may be any of one, two.*model="):
        port.to_optax(optimizer, params=params, mapping=LOOSE)
    port.to_optax(optimizer, params=params, mapping=LOOSE, model=module)


def test_an_optimizer_of_another_model_is_refused(recorded: Recorded) -> None:
    other = torch.nn.Linear(11, 2)
    with pytest.raises(WeightsMismatch, match=r"parameter 0 of the optimizer's group 0 has shape \(2, 11\)"):
        port.to_optax(torch.optim.Adam(other.parameters()), params=recorded.params, mapping=recorded.mapping)
    with pytest.raises(WeightsMismatch, match="none of the model's"):
        port.to_optax(
            torch.optim.Adam(recorded.fresh().parameters()),
            params=recorded.params,
            mapping=recorded.mapping,
            model=recorded.fresh(),
        )


def test_a_class_of_ones_own_is_refused(recorded: Recorded) -> None:
    class Mine(torch.optim.Adam): ...

    with pytest.raises(UsageError, match=r"Mine is a class of its own, derived from torch\.optim\.Adam"):
        port.to_optax(Mine(recorded.fresh().parameters()), params=recorded.params, mapping=recorded.mapping)


# %% LBFGS


@pytest.mark.parametrize("line_search", [pytest.param(None, marks=pytest.mark.sweep), "strong_wolfe"])
def test_lbfgs_on_a_fixed_problem_handed_over_there_and_back(line_search: str | None) -> None:
    recorded = mlp()
    generator = np.random.default_rng(2)
    inputs, targets = generator.standard_normal((40, 5)), generator.standard_normal((40, 3))
    module = recorded.fresh()
    make = lambda module: torch.optim.LBFGS(  # noqa: E731
        module.parameters(), lr=0.5, max_iter=6, history_size=5, line_search_fn=line_search
    )
    optimizer = make(module)

    def closure_of(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
        def closure() -> Any:
            optimizer.zero_grad()
            outputs = module(torch.from_numpy(inputs))
            loss = ((outputs - torch.from_numpy(targets)) ** 2).mean()
            loss = loss + 0.5 * sum((p**2).sum() for p in module.parameters())
            loss.backward()
            return loss

        return closure

    @jax.value_and_grad
    def loss_fn(params: Any) -> jax.Array:
        layers = nnx.to_pure_dict(params)
        hidden = jnp.tanh(inputs @ layers["fc1"]["kernel"] + layers["fc1"]["bias"])
        outputs = hidden @ layers["fc2"]["kernel"] + layers["fc2"]["bias"]
        penalty = sum((leaf**2).sum() for leaf in jax.tree.leaves(params))
        return ((outputs - targets) ** 2).mean() + 0.5 * penalty

    with pytest.raises(UsageError, match="no gradient to clip"):
        port.to_optax(optimizer, params=recorded.params, mapping=recorded.mapping, clip_norm=1.0)
    for _ in range(2):
        optimizer.step(closure_of(module, optimizer))
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation, state = port.to_optax(optimizer, params=params, mapping=recorded.mapping)

    @jax.jit
    def step(state: Any, params: Any) -> Any:
        updates, state = transformation.update(params, state, params, value_and_grad_fn=loss_fn)
        return jax.tree.map(jnp.add, params, updates), state

    for _ in range(4):
        optimizer.step(closure_of(module, optimizer))
        params, state = step(state, params)
        assert distance(recorded.to_torch(params), module) <= LIMIT

    back = copy.deepcopy(module)
    resumed = make(back)
    port.load_optimizer(resumed, state, mapping=recorded.mapping, params=params)
    for _ in range(3):
        optimizer.step(closure_of(module, optimizer))
        resumed.step(closure_of(back, resumed))
    assert distance({name: p.detach().numpy() for name, p in back.named_parameters()}, module) <= LIMIT


@pytest.mark.sweep
def test_the_convnets_moments_are_permuted() -> None:
    recorded = convnet()
    module = recorded.fresh()
    assert both(recorded, module, torch.optim.Adam(module.parameters(), lr=1e-2), start=15, until=30) <= LIMIT
