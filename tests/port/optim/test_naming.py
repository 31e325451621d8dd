"""Which parameter of the model each of an optimizer's is."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
import pytest
import torch

import port
from models.recorded import LOOSE, Recorded, both, distance, flax_steps, torch_step
from models.recorded import loose as make_loose
from port.errors import UsageError, WeightsMismatch
from port.optim.naming import names_of

LIMIT = 1e-10


@pytest.fixture(scope="module")
def loose() -> Recorded:
    with jax.enable_x64(True):
        return make_loose()


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


def stepped(loose: Recorded, names: list[str], steps: int = 3) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model in the middle of its run, and an optimizer that has its parameters in that order."""
    module = loose.fresh()
    known = dict(module.named_parameters())
    optimizer = torch.optim.SGD([known[name] for name in names], lr=0.01, momentum=0.9)
    for gradients in loose.gradients[:steps]:
        torch_step(module, optimizer, gradients)
    return module, optimizer


def momenta(optimizer: torch.optim.Optimizer, loose: Recorded, params: Any, **options: Any) -> dict[str, np.ndarray]:
    _, state = port.to_optax(optimizer, params=params, mapping=LOOSE, **options)
    return loose.to_torch(state[0].trace)


def current(loose: Recorded, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


CHANGED = ["qkv", "two", "one", "bias"]


def test_a_changed_order_among_equal_shapes_is_refused_where_the_values_are_no_longer_current(loose: Recorded) -> None:
    module, optimizer = stepped(loose, CHANGED)
    for name, parameter in module.named_parameters():
        found = momenta(optimizer, loose, loose.to_flax(current(loose, module)))
        np.testing.assert_array_equal(found[name], optimizer.state[parameter]["momentum_buffer"].numpy())
        found = momenta(optimizer, loose, loose.params, model=module)
        np.testing.assert_array_equal(found[name], optimizer.state[parameter]["momentum_buffer"].numpy())
    message = (
        r"parameter 1 of the optimizer's group 0 is one by the model's order, and its value is nearer to that of two"
        r".*model=.*named_parameters"
    )
    with pytest.raises(UsageError, match=message):
        momenta(optimizer, loose, loose.params)
    with pytest.raises(UsageError, match=message):
        port.load_optimizer(
            optimizer, optax.sgd(0.01, momentum=0.9).init(loose.params), mapping=LOOSE, params=loose.params
        )


def test_the_models_own_order_stands_where_the_values_are_no_longer_current(loose: Recorded) -> None:
    module, optimizer = stepped(loose, [name for name, _ in loose.module.named_parameters()])
    found = momenta(optimizer, loose, loose.params)
    for name, parameter in module.named_parameters():
        np.testing.assert_array_equal(found[name], optimizer.state[parameter]["momentum_buffer"].numpy())


@pytest.mark.parametrize("equal", ["one", "two"])
def test_one_value_that_is_equal_is_enough(equal: str, loose: Recorded) -> None:
    module, optimizer = stepped(loose, CHANGED)
    before = {name: parameter.detach() for name, parameter in loose.module.named_parameters()}
    params = loose.to_flax({**before, equal: dict(module.named_parameters())[equal].detach()})
    found = momenta(optimizer, loose, params)
    for name, parameter in module.named_parameters():
        np.testing.assert_array_equal(found[name], optimizer.state[parameter]["momentum_buffer"].numpy())


def test_ones_of_a_fresh_model_are_no_sign(loose: Recorded) -> None:
    """Both scales are ones in torch, and one of them still is in JAX: both are nearest to that one."""
    module = loose.fresh()
    with torch.no_grad():
        module.one.fill_(1.0)
        module.two.fill_(1.0)
    params = loose.to_flax({**current(loose, module), "one": loose.module.one.detach()})  # type: ignore[union-attr]
    optimizer = torch.optim.SGD(module.parameters(), momentum=0.9)
    torch_step(module, optimizer, {name: torch.zeros_like(p) + p.numel() for name, p in module.named_parameters()})
    with torch.no_grad():
        module.one.fill_(1.0)
        module.two.fill_(1.0)
    assert len(momenta(optimizer, loose, params)) == 4


def test_a_parameter_that_is_in_no_group_may_be_the_nearer_one(loose: Recorded) -> None:
    module, _ = stepped(loose, CHANGED)
    known = dict(module.named_parameters())
    shapes = {name: tuple(p.shape) for name, p in known.items()}
    order = {"qkv": shapes["qkv"], "one": shapes["one"], "bias": shapes["bias"], "two": shapes["two"]}
    values = {name: p.detach().numpy() for name, p in loose.module.named_parameters()}
    right = torch.optim.SGD([known["qkv"], known["one"], known["bias"]])
    assert names_of(right, order, values=values) == [["qkv", "one", "bias"]]
    wrong = torch.optim.SGD([known["qkv"], known["two"], known["bias"]])
    with pytest.raises(UsageError, match=r"parameter 1 of the optimizer's group 0 is one .* nearer to that of two"):
        names_of(wrong, order, values=values)


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

    with pytest.raises(UsageError, match=r"Mine is derived from torch\.optim\.Adam"):
        port.to_optax(Mine(recorded.fresh().parameters()), params=recorded.params, mapping=recorded.mapping)
