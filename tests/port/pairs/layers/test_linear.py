"""torch.nn.Linear and Bilinear and what they are paired with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen as flax_linen
from flax import nnx
from torch import nn

from port.moves import Permute
from port.pairs import build_twin

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds


def random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(1, 2, shape))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...]]] = {
    "linear": (lambda: nn.Linear(7, 4), ((3, 7),)),
    "linear, square": (lambda: nn.Linear(5, 5), ((3, 5),)),
    "linear, no bias, more axes": (lambda: nn.Linear(7, 4, bias=False), ((2, 3, 7),)),
    "linear, no batch": (lambda: nn.Linear(7, 4), ((7,),)),
    "bilinear": (lambda: nn.Bilinear(3, 4, 5), ((6, 3), (6, 4))),
    "bilinear, a cube": (lambda: nn.Bilinear(4, 4, 4), ((6, 4), (6, 4))),
    "bilinear, no bias, more axes": (lambda: nn.Bilinear(3, 4, 5, bias=False), ((2, 6, 3), (2, 6, 4))),
    "bilinear, no batch": (lambda: nn.Bilinear(3, 4, 5), ((3,), (4,))),
}


@pytest.mark.parametrize("name", CASES)
def test_W1_the_twin_computes_the_same_with_the_same_gradients(name: str, sides: Any) -> None:
    make, shapes = CASES[name]
    both = sides(make())
    both.check_weights()
    assert both.difference(*map(random_of, shapes), steps=1) < TOLERANCE


def random_of(shape: tuple[int, ...]) -> torch.Tensor:
    return random(*shape)


@pytest.mark.parametrize(
    ("make", "shapes", "axes"),
    [
        (lambda: nn.Linear(5, 5), ((3, 5),), (0, 1)),
        (lambda: nn.Bilinear(4, 4, 4), ((6, 4), (6, 4)), (2, 1, 0)),
        (lambda: nn.Bilinear(4, 4, 4), ((6, 4), (6, 4)), (0, 1, 2)),
    ],
)
def test_W1_a_wrong_permutation_that_fits_is_seen(
    make: Callable[[], nn.Module], shapes: tuple[tuple[int, ...], ...], axes: tuple[int, ...], sides: Any
) -> None:
    both = sides(make(), moves={"weight": (Permute(axes),)})
    assert both.difference(*map(random_of, shapes), steps=1) > VISIBLE


def test_a_gradient_in_the_wrong_layout_is_seen(sides: Any) -> None:
    both = sides(nn.Linear(5, 5))
    both.moves = {"weight": ()}  # the weights are there already
    assert both.difference(random(3, 5), steps=1) > VISIBLE


def test_W27_the_dtype_of_parameters_is_asked_for_not_implied(sides: Any) -> None:
    """`sides` turns 64-bit types on, and Flax's parameters stay float32."""
    plain, asked = (
        nnx.eval_shape(partial(build_twin, nn.Linear(3, 2), **given)) for given in ({}, {"param_dtype": jnp.float64})
    )
    assert (plain.kernel.dtype, asked.kernel.dtype) == (jnp.float32, jnp.float64)


# %% Written apart


def test_general_features_have_axes_of_their_own(sides: Any) -> None:
    layer = nn.Linear(12, 10)
    make = partial(nnx.LinearGeneral, (3, 4), (2, 5), axis=(-2, -1), param_dtype=jnp.float64)
    both = sides(layer, flax=("flax.nnx.LinearGeneral", make))
    x = random(6, 12)
    y = both.twin(jnp.asarray(x.numpy().reshape(6, 3, 4)))
    np.testing.assert_allclose(y, both.layer(x).detach().numpy().reshape(6, 2, 5), rtol=TOLERANCE)


@pytest.mark.parametrize("bias", [True, False])
def test_linens_dense(bias: bool, sides: Any, linen: Any) -> None:
    layer = sides(nn.Linear(7, 7, bias=bias)).layer
    module = flax_linen.Dense(7, use_bias=bias, param_dtype=jnp.float64)
    x = random(3, 7)
    y = module.apply(linen(layer, module), jnp.asarray(x.numpy()))
    np.testing.assert_allclose(y, layer(x).detach().numpy(), rtol=TOLERANCE)
