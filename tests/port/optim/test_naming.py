"""Which parameter of the model each of an optimizer's is."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest
import torch

import port
from models.recorded import LOOSE, Recorded, both, distance, flax_steps, mlp, torch_step
from models.recorded import loose as make_loose
from port.errors import UsageError, WeightsMismatch

LIMIT = 1e-10


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    with jax.enable_x64(True):
        return mlp()


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
