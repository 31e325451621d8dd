"""Keys and bits against jax.random: the same, or the test fails.

Next to each equality stands a planted fault, something nearly right that has to come out different: a comparison that
cannot fail would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from port import random
from port.errors import UsageError

Same = Callable[[Tensor, Any], bool]
SEEDS = [0, 1, 2**31, 2**32 - 1, 2**32 + 5, 2**63 - 1, -1, -(2**32) - 7, -(2**63)]
JAX_KEY = {False: jax.random.key(7)}
with jax.enable_x64(True):
    JAX_KEY[True] = jax.random.key(7)


def key_data(key: Any) -> Any:
    return jax.random.key_data(key)


# %% Keys


@pytest.mark.parametrize("seed", SEEDS)
def test_key_is_jaxs(seed: int, x64: bool, same: Same) -> None:
    assert same(random.key(seed, x64=x64), key_data(jax.random.key(seed)))
    assert not same(random.key(seed ^ 1, x64=x64), key_data(jax.random.key(seed)))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(-(2**63), 2**63 - 1), x64=st.booleans())
def test_key_is_jaxs_for_any_seed(seed: int, x64: bool, same: Same) -> None:
    with jax.enable_x64(x64):
        theirs = key_data(jax.random.key(seed))
    assert same(random.key(seed, x64=x64), theirs)
    fits = 0 <= seed < 2**32
    assert same(random.key(seed, x64=not x64), theirs) == fits, "only small seeds mean the same with x64 on and off"


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_beyond_int64_is_refused_as_in_jax(seed: int) -> None:
    with pytest.raises(OverflowError):
        jax.random.key(seed)
    with pytest.raises(UsageError, match=str(seed)):
        random.key(seed)


@pytest.mark.parametrize("seed", [1.0, "1", np.int64(1)])
def test_a_seed_that_is_no_int_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match="a seed is an int"):
        random.key(seed)


@pytest.mark.parametrize("data", [0, 1, 2**31, 2**32 - 1])
def test_fold_in_is_jaxs(data: int, x64: bool, same: Same) -> None:
    theirs = key_data(jax.random.fold_in(JAX_KEY[x64], data))
    assert same(random.fold_in(random.key(7), data), theirs)
    assert not same(random.fold_in(random.key(7), data ^ 1), theirs)
    assert not same(random.fold_in(random.key(8), data), theirs)


@pytest.mark.parametrize(("dtype", "data"), [("int32", -1), ("uint32", 2**32 - 2), ("int64", -3), ("uint8", 200)])
def test_fold_in_of_a_tensor_wraps_as_in_jax(dtype: str, data: int, x64: bool, same: Same) -> None:
    number = np.array(data, dtype)
    theirs = key_data(jax.random.fold_in(JAX_KEY[x64], number))
    assert same(random.fold_in(random.key(7), torch.from_numpy(number)), theirs)
    assert not same(random.fold_in(random.key(7), torch.from_numpy(number) * 0), theirs)


@pytest.mark.parametrize("data", [-1, 2**32, 1.5, torch.tensor(1.5), torch.tensor([1])])
def test_fold_in_refuses_what_is_not_one_integer(data: Any) -> None:
    with pytest.raises(UsageError, match="fold_in takes one int"):
        random.fold_in(random.key(7), data)


@pytest.mark.parametrize("num", [0, 1, 2, 5, (2, 3), ()])
def test_split_is_jaxs(num: int | tuple[int, ...], x64: bool, same: Same) -> None:
    theirs = key_data(jax.random.split(JAX_KEY[x64], num))
    assert same(random.split(random.key(7), num), theirs)
    if theirs.size:
        assert not same(random.split(random.key(8), num), theirs)


@pytest.mark.parametrize("wrong", [random.split(random.key(0), 3), torch.tensor([0, 1]), random.key(0)[0]])
def test_what_is_no_key_is_refused(wrong: Tensor) -> None:
    for draw in (random.split, random.bits, random.uniform, random.bernoulli):
        with pytest.raises(UsageError, match="a key has shape"):
            draw(wrong)


# %% Bits


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (2, 3, 5)], ids=str)
def test_bits_are_jaxs_in_each_shape(shape: tuple[int, ...], x64: bool, same: Same) -> None:
    theirs = jax.random.bits(JAX_KEY[x64], shape)
    assert same(random.bits(random.key(7), shape, x64=x64), theirs)
    assert not same(random.bits(random.key(7), shape, x64=not x64), theirs)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits_are_jaxs_in_each_dtype(dtype: str, same: Same) -> None:
    with jax.enable_x64(True):
        theirs = jax.random.bits(JAX_KEY[True], (5, 33), dtype)
    assert same(random.bits(random.key(7), (5, 33), getattr(torch, dtype)), theirs)
    assert not same(random.bits(random.key(8), (5, 33), getattr(torch, dtype)), theirs)


def test_other_dtypes_and_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="uint8, uint16, uint32 or uint64"):
        random.bits(random.key(7), (2,), torch.int32)
    with pytest.raises(UsageError, match=r"fewer than 2\*\*31"):
        random.bits(random.key(7), (2**16, 2**15))


def test_these_bits_never_change() -> None:
    """Written down from jax 0.10.2: if a jax, or this module, draws others, old records cannot be reproduced."""
    key = random.key(42)
    known = {
        "split": [[1832780943, 270669613], [64467757, 2916123636]],
        "fold_in": [64467757, 2916123636],
        "uint8": [162, 217, 249],
        "uint32": [2098992034, 2919706841, 2646866425],
        "uint64": [7871734211187709741, 276886910877598708, 10591095138341673235],
    }
    ours = {
        "split": random.split(key).tolist(),
        "fold_in": random.fold_in(key, 1).tolist(),
        "uint8": random.bits(key, (3,), torch.uint8).tolist(),
        "uint32": random.bits(key, (3,)).tolist(),
        "uint64": random.bits(key, (3,), x64=True).tolist(),
    }
    with jax.enable_x64(True):
        jax_key = jax.random.key(42)
        theirs = {
            "split": key_data(jax.random.split(jax_key)).tolist(),
            "fold_in": key_data(jax.random.fold_in(jax_key, 1)).tolist(),
            "uint8": jax.random.bits(jax_key, (3,), "uint8").tolist(),
            "uint32": jax.random.bits(jax_key, (3,), "uint32").tolist(),
            "uint64": jax.random.bits(jax_key, (3,)).tolist(),
        }
    assert ours == known
    assert theirs == known
