"""A person's own optimizer and schedule, by the guide's pairs: their steps, their state both ways, as torch's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import port
from models.own import own_pairs
from models.recorded import Recorded, both, distance, flax_steps, state_distance, torch_step
from port.errors import UnknownChoice, UsageError, WeightsMismatch
from port.optim.moving import MovedOptimizer
from port.pairs import Expression, OptimizerPair, SchedulePair
from port.pairs.optimizers.adam import ADAM

LIMIT, VISIBLE = 1e-12, 1e-6
STEPS = 30


@pytest.fixture(autouse=True)
def pairs() -> Iterator[dict[type, Any]]:
    with own_pairs() as registered:
        yield {type(pair): pair for pair in registered}


def lion(parameters: Any, lr: Any = 0.01, **options: Any) -> torch.optim.Optimizer:
    from my_pkg.optim import Lion

    made: torch.optim.Optimizer = Lion(parameters, lr, **options)
    return made


def warmed(optimizer: torch.optim.Optimizer) -> Any:
    from my_pkg.optim import InverseSquareRoot

    return InverseSquareRoot(optimizer, warm_up=7)


@pytest.mark.parametrize(
    "options",
    [{}, {"weight_decay": 0.1}, {"betas": (0.8, 0.7), "weight_decay": 0.3, "maximize": True}, {"foreach": True}],
)
@pytest.mark.parametrize("start", [0, 5])
def test_it_steps_as_in_torch(recorded: Recorded, options: dict[str, Any], start: int) -> None:
    module = recorded.fresh()
    assert both(recorded, module, lion(module.parameters(), **options), start=start, until=STEPS) <= LIMIT


def test_groups_have_options_of_their_own(recorded: Recorded) -> None:
    module = recorded.fresh()
    groups = [
        {"params": list(module.fc1.parameters()), "weight_decay": 0.2},
        {"params": list(module.fc2.parameters()), "lr": 0.03},
    ]
    assert both(recorded, module, lion(groups), start=3, until=STEPS) <= LIMIT


@pytest.mark.parametrize("start", [0, 11])
def test_its_schedule_goes_on_where_torchs_stood(recorded: Recorded, start: int) -> None:
    module = recorded.fresh()
    optimizer = lion(module.parameters(), weight_decay=0.1)
    scheduler = warmed(optimizer)
    after = lambda step: scheduler.step()  # noqa: E731
    assert both(recorded, module, optimizer, after=after, start=start, until=STEPS, scheduler=scheduler) <= LIMIT


def test_a_schedule_of_torchs_cycles_its_momentum(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = lion(module.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=STEPS + 1)
    after = lambda step: scheduler.step()  # noqa: E731
    assert both(recorded, module, optimizer, after=after, start=4, until=STEPS, scheduler=scheduler) <= LIMIT


def there_and_back(recorded: Recorded) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer, Any, Any]:
    """torch's optimizer and scheduler after a run; and fresh ones, filled with what JAX has after the same run."""
    module = recorded.fresh()
    optimizer = lion(module.parameters(), weight_decay=0.1)
    scheduler = warmed(optimizer)
    given: dict[str, Any] = {"params": recorded.params, "mapping": recorded.mapping}
    transformation, state = port.to_optax(optimizer, scheduler=scheduler, **given)
    step, params = flax_steps(transformation), recorded.params
    for gradients in recorded.gradients[:STEPS]:
        torch_step(module, optimizer, gradients)
        scheduler.step()
        params, state = step(recorded.to_flax(gradients), state, params)
    other = recorded.fresh()
    filled = lion(other.parameters(), weight_decay=0.1)
    placed = warmed(filled)
    port.load_optimizer(filled, state, scheduler=placed, **given)
    return optimizer, filled, scheduler, placed


def test_its_state_goes_there_and_back(recorded: Recorded) -> None:
    optimizer, filled, scheduler, placed = there_and_back(recorded)
    assert state_distance(filled, optimizer) <= LIMIT
    assert [set(state) for state in filled.state.values()] == [{"exp_avg"}] * 4
    assert placed.last_epoch == scheduler.last_epoch == STEPS
    assert filled.param_groups[0]["lr"] == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)


def test_its_source_is_what_runs(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = lion(module.parameters(), weight_decay=0.1, maximize=True)
    source = port.optax_source(optimizer, scheduler=warmed(optimizer))
    assert "import my_pkg.in_jax\nimport optax\n" in source
    assert "my_pkg.in_jax.inverse_square_root(0.01, warm_up=7), 0.9, 0.99, weight_decay=0.1" in source
    names: dict[str, Any] = {}
    exec(source, names)
    built, state = port.to_optax(
        optimizer, scheduler=warmed(optimizer), params=recorded.params, mapping=recorded.mapping
    )
    gradients = recorded.to_flax(recorded.gradients[0])
    ours, _ = flax_steps(built)(gradients, state, recorded.params)
    theirs, _ = flax_steps(names["optimizer"])(gradients, names["optimizer"].init(recorded.params), recorded.params)
    for one, other in zip(recorded.to_torch(ours).values(), recorded.to_torch(theirs).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_it_is_had_by_its_name(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = lion(module.parameters(), lr=0.02)
    ours = port.optim.by_name("lion", lr=0.02, foreach=True)
    step, params, state = flax_steps(ours), recorded.params, ours.init(recorded.params)
    for gradients in recorded.gradients[:STEPS]:
        torch_step(module, optimizer, gradients)
        params, state = step(recorded.to_flax(gradients), state, params)
    assert distance(recorded.to_torch(params), module) <= LIMIT
    with pytest.raises(UnknownChoice, match="there are: lion"):
        port.optim.by_name("lionn")
    with pytest.raises(UsageError, match="betas: expected 2 values like"):
        port.optim.by_name("lion", betas=0.9)


def saved(recorded: Recorded, folder: Path) -> tuple[Path, torch.nn.Module, torch.optim.Optimizer]:
    module = recorded.fresh()
    optimizer = lion(module.parameters(), weight_decay=0.1)
    scheduler = warmed(optimizer)
    for gradients in recorded.gradients[:9]:
        torch_step(module, optimizer, gradients)
        scheduler.step()
    path = folder / "run.pt"
    kept = {"model": module, "optimizer": optimizer, "scheduler": scheduler}
    torch.save({name: one.state_dict() for name, one in kept.items()}, path)
    return path, module, optimizer


def test_it_is_moved_out_of_a_checkpoint(recorded: Recorded, tmp_path: Path) -> None:
    from my_pkg.optim import InverseSquareRoot, Lion

    path, module, optimizer = saved(recorded, tmp_path)
    moving = MovedOptimizer(path, Lion, module, scheduler=InverseSquareRoot)
    tensors = {tensor.name: np.asarray(tensor.read()) for tensor in moving(recorded.mapping)}
    (moment,) = [value for name, value in tensors.items() if name.endswith("mu.fc1.kernel")]
    np.testing.assert_array_equal(moment, optimizer.state[module.fc1.weight]["exp_avg"].numpy().T)
    assert "my_pkg.in_jax.inverse_square_root(0.01, warm_up=7)" in moving.source
    assert [int(value) for name, value in tensors.items() if value.shape == () and value == 9]


# %% What is wrong is seen


def uphill(options: Any) -> Expression:
    return Expression("optax.chain", (Expression("optax.scale_by_lion", options["betas"]), _up(options)))


def _up(options: Any) -> Expression:
    return Expression("optax.scale_by_learning_rate", (options["lr"],), {"flip_sign": False})


def betas_swapped(options: Any) -> Expression:
    b1, b2 = options["betas"]
    return Expression("optax.lion", (options["lr"], b2, b1), {"weight_decay": options["weight_decay"]})


def decay_forgotten(options: Any) -> Expression:
    return Expression("optax.lion", (options["lr"], *options["betas"]))


@pytest.mark.parametrize("chain", [uphill, betas_swapped, decay_forgotten])
def test_a_wrong_chain_is_seen(recorded: Recorded, pairs: dict[type, Any], chain: Callable[[Any], Expression]) -> None:
    port.register(replace(pairs[OptimizerPair], chain=chain))
    module = recorded.fresh()
    assert both(recorded, module, lion(module.parameters(), weight_decay=0.1), until=STEPS) > VISIBLE


def test_a_wrong_name_in_the_state_is_seen(recorded: Recorded, pairs: dict[type, Any]) -> None:
    port.register(replace(pairs[OptimizerPair], state={"ScaleByLionState": {"mu": "momentum"}}))
    module = recorded.fresh()
    with pytest.raises(WeightsMismatch, match=r"lacks momentum.*it has exp_avg"):
        both(recorded, module, lion(module.parameters()), start=5, until=STEPS)


def test_names_that_are_swapped_in_the_state_are_seen(recorded: Recorded) -> None:
    """A registered pair stands before the project's own of the same class."""
    adam = lambda module: torch.optim.Adam(module.parameters(), lr=0.01)  # noqa: E731
    module = recorded.fresh()
    assert both(recorded, module, adam(module), start=5, until=9) <= LIMIT
    swapped = {"ScaleByAdamState": {"count": "step", "mu": "exp_avg_sq", "nu": "exp_avg"}}
    port.register(replace(ADAM, state=swapped))
    module = recorded.fresh()
    assert not both(recorded, module, adam(module), start=5, until=9) <= VISIBLE


def test_a_wrong_schedule_is_seen(recorded: Recorded, pairs: dict[type, Any]) -> None:
    late = lambda scheduler, group, base: Expression(  # noqa: E731
        "my_pkg.in_jax.inverse_square_root", (base,), {"warm_up": scheduler.warm_up + 1}
    )
    port.register(replace(pairs[SchedulePair], learning_rate=late))
    module = recorded.fresh()
    optimizer = lion(module.parameters())
    with pytest.raises(UsageError, match="InverseSquareRoot alone would have brought it to"):
        port.to_optax(optimizer, scheduler=warmed(optimizer), params=recorded.params, mapping=recorded.mapping)


def test_an_option_that_the_pair_does_not_know_is_refused(recorded: Recorded, pairs: dict[type, Any]) -> None:
    pair = pairs[OptimizerPair]
    port.register(replace(pair, defaults={name: pair.defaults[name] for name in ("lr", "betas", "weight_decay")}))
    with pytest.raises(UsageError, match=r"Lion has the option maximize, which its pair does not list"):
        port.optax_source(lion(recorded.fresh().parameters()))


def test_a_count_in_python_is_one_again(recorded: Recorded, pairs: dict[type, Any]) -> None:
    """Optimizers outside torch often count with Python's own numbers."""
    counting = {"ScaleByLionState": {"mu": "exp_avg", "count": "step"}}
    port.register(replace(pairs[OptimizerPair], state=counting, counts=True, whole_count=True))
    module = recorded.fresh()
    optimizer = lion(module.parameters())
    for place in range(3):
        torch_step(module, optimizer, recorded.gradients[place])
        for state in optimizer.state.values():
            state["step"] = place + 1
    given: dict[str, Any] = {"params": recorded.params, "mapping": recorded.mapping}
    _, state = port.to_optax(optimizer, **given)
    other = recorded.fresh()
    filled = lion(other.parameters())
    port.load_optimizer(filled, state, **given)
    assert [state["step"] for state in filled.state.values()] == [3] * 4
    assert {type(state["step"]) for state in filled.state.values()} == {int}
