"""What is read of a torch optimizer: complex parameters, and the dtype of its scalars."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

import port
from models.recorded import Recorded, both, distance, flax_steps, torch_step
from port.errors import UsageError
from port.mapping import Entry, Mapping
from port.optim.reading import read_groups

LIMIT = 1e-10


MAPPING = Mapping((Entry(("w",), ("w",), (), "params", ((3, 4),)),))
COMPLEX = {
    name: getattr(torch.optim, name)
    for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "LBFGS")
}


def stepped(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter, given: Any = None) -> float:
    """The relative distance after one more step on both sides."""
    generator = torch.Generator().manual_seed(4)
    gradient = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    params = {"w": jnp.asarray(parameter.detach().numpy().copy())}
    transformation, state = port.to_optax(optimizer, params=params, mapping=MAPPING)
    parameter.grad = gradient
    optimizer.step()
    updates, _ = transformation.update({"w": jnp.asarray(gradient.numpy())}, state, params)
    found = optax.apply_updates(params, updates)["w"]
    return float(np.linalg.norm(found - parameter.detach().numpy()) / np.linalg.norm(found))


def complex_parameter() -> torch.nn.Parameter:
    generator = torch.Generator().manual_seed(2)
    return torch.nn.Parameter(torch.randn(3, 4, generator=generator, dtype=torch.complex128))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_parameters_are_refused_where_torch_steps_their_parts(name: str) -> None:
    with pytest.raises(UsageError, match=rf"w is complex, and torch\.optim\.{name} steps its real and its imaginary"):
        stepped(COMPLEX[name]([complex_parameter()]), complex_parameter())


def test_complex_parameters_that_are_stepped_alike() -> None:
    for make in (
        lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1),
        lambda params: torch.optim.ASGD(params, lr=0.1, lambd=0.1),
    ):
        parameter = complex_parameter()
        optimizer = make([parameter])
        assert max(stepped(optimizer, parameter) for _ in range(3)) <= LIMIT


def loaded(recorded: Recorded, make: Any) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """An optimizer whose state has gone through load_state_dict, which casts its scalars to the parameters' dtype."""
    module = recorded.fresh()
    first = make(module.parameters())
    for gradients in recorded.gradients[:2]:
        torch_step(module, first, gradients)
    optimizer = make(module.parameters())
    optimizer.load_state_dict(first.state_dict())
    return module, optimizer


def test_scalars_keep_the_dtype_that_they_were_loaded_in(recorded: Recorded) -> None:
    for make, dtype in (
        (lambda params: torch.optim.NAdam(params, lr=0.1), "float64"),
        # torch makes them anew in each step, in its default dtype.
        (lambda params: torch.optim.ASGD(params, lr=0.1, lambd=0.1, t0=3), "float32"),
    ):
        module, optimizer = loaded(recorded, make)
        groups = read_groups(optimizer, [[name for name, _ in module.named_parameters()]])
        assert [group.scalars for group in groups] == [dtype]
        assert both(recorded, module, optimizer, until=10) <= LIMIT


def test_scalars_of_another_dtype_are_seen(recorded: Recorded) -> None:
    module, optimizer = loaded(recorded, lambda params: torch.optim.NAdam(params, lr=0.1))
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation, state = port.to_optax(optimizer, params=params, mapping=recorded.mapping)
    narrow = jax.tree.map(lambda leaf: leaf, state)
    narrow = (narrow[0]._replace(mu_product=narrow[0].mu_product.astype(jnp.float32)), *narrow[1:])
    step = flax_steps(transformation)
    for gradients in recorded.gradients[:10]:
        torch_step(module, optimizer, gradients)
        params, narrow = step(recorded.to_flax(gradients), narrow, params)
    assert distance(recorded.to_torch(params), module) > LIMIT
