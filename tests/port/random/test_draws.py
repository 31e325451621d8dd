"""Uniform numbers and coin tosses against jax.random: the same bits, or the test fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from port import random
from port.errors import UsageError

Same = Callable[[Tensor, Any], bool]
JAX_KEY = {False: jax.random.key(7)}
with jax.enable_x64(True):
    JAX_KEY[True] = jax.random.key(7)


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_is_jaxs_in_each_dtype(dtype: str, same: Same) -> None:
    key, torch_dtype, with_x64 = random.key(7), getattr(torch, dtype), dtype == "float64"
    for low, high in ((0.0, 1.0), (-1.0, 3.0), (0.1, 0.9), (-0.7, 0.7)):
        with jax.enable_x64(with_x64):
            theirs = jax.random.uniform(JAX_KEY[with_x64], (9, 333), dtype, low, high)
        ours = random.uniform(key, (9, 333), torch_dtype, low, high)
        # As jax's source has it, which XLA compiles to a single rounding, except in bfloat16; and in float16 on a
        # processor that does not compute in it.
        bounds = torch.tensor([low, high], dtype=torch_dtype)
        rounded_twice = random.uniform(key, (9, 333), torch_dtype) * (bounds[1] - bounds[0]) + bounds[0]
        assert same(ours, theirs) or (dtype == "float16" and same(rounded_twice, theirs))
        assert not same(random.uniform(random.key(8), (9, 333), torch_dtype, low, high), theirs)
    assert torch.equal(rounded_twice, ours) == (dtype == "bfloat16")


def test_uniforms_default_dtype_is_jaxs(x64: bool, same: Same) -> None:
    theirs = jax.random.uniform(JAX_KEY[x64])
    assert same(random.uniform(random.key(7), x64=x64), theirs)
    assert not same(random.uniform(random.key(7), x64=not x64), theirs)


@pytest.mark.usefixtures("optimized")
def test_uniform_takes_bounds_as_tensors(same: Same) -> None:
    low, high = np.array([[0.1], [2.0]], np.float32), np.float32(3.3)
    theirs = jax.random.uniform(JAX_KEY[False], (2, 9), jnp.float32, low, high)
    ours = random.uniform(random.key(7), (2, 9), torch.float32, torch.from_numpy(low), torch.tensor(high))
    assert same(ours, theirs)
    assert not same(random.uniform(random.key(7), (2, 9), torch.float32, 0.1, float(high)), theirs)


def test_uniform_refuses_other_dtypes() -> None:
    with pytest.raises(UsageError, match="uniform draws"):
        random.uniform(random.key(7), (2,), torch.int32)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_bernoulli_is_jaxs(p: float, x64: bool, same: Same) -> None:
    key, shape = random.key(7), (64, 9)
    theirs = jax.random.bernoulli(JAX_KEY[x64], p, shape)
    assert same(random.bernoulli(key, p, shape, x64=x64), theirs)
    if 0 < p < 1:
        assert not same(random.bernoulli(key, p, shape, x64=not x64), theirs), "x64 is part of a mask's definition"
        assert not same(random.bernoulli(random.key(8), p, shape, x64=x64), theirs)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(-(2**63), 2**63 - 1), p=st.floats(0, 1), x64=st.booleans())
def test_bernoulli_is_jaxs_for_any_seed(seed: int, p: float, x64: bool, same: Same) -> None:
    with jax.enable_x64(x64):
        theirs = jax.random.bernoulli(jax.random.key(seed), p, (41,))
    assert same(random.bernoulli(random.key(seed, x64=x64), p, (41,), x64=x64), theirs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_bernoulli_draws_in_the_dtype_of_p(dtype: str, same: Same) -> None:
    p = np.linspace(0.05, 0.95, 40).reshape(1, 40)
    torch_p = torch.from_numpy(p).to(getattr(torch, dtype))
    with jax.enable_x64(dtype == "float64"):
        theirs = jax.random.bernoulli(JAX_KEY[dtype == "float64"], jnp.asarray(p, dtype), (30, 40))
    assert same(random.bernoulli(random.key(7), torch_p, (30, 40)), theirs)
    assert same(random.bernoulli(random.key(7), torch_p.expand(30, 40)), theirs)
    other = torch.float32 if dtype == "float64" else torch.float64
    assert not same(random.bernoulli(random.key(7), torch_p.to(other), (30, 40)), theirs)


def test_p_has_to_be_floating_and_to_fit_the_shape() -> None:
    for p in (1, torch.tensor(1), "0.5"):
        with pytest.raises(UsageError, match="p must be a float"):
            random.bernoulli(random.key(7), p)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="size"):
        random.bernoulli(random.key(7), torch.rand(3, 1), (2,))


def test_draws_are_vectorised_by_vmap() -> None:
    keys = random.split(random.key(7), 4)
    drawn = torch.vmap(lambda key: random.bernoulli(key, 0.5, (9,)))(keys)
    assert torch.equal(drawn, torch.stack([random.bernoulli(key, 0.5, (9,)) for key in keys]))
    folded = torch.vmap(lambda step: random.fold_in(keys[0], step))(torch.arange(4))
    assert torch.equal(folded, torch.stack([random.fold_in(keys[0], step) for step in range(4)]))
