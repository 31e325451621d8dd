"""port.nn.InstanceNorm by itself: dtypes, modes, refusals."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import InstanceNorm

SHAPE = (2, 5, 4, 3)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(3, 2, shape)


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_keeps_its_dtype_and_exact_statistics(half: str) -> None:
    x = jnp.asarray(random(*SHAPE), half)
    norm = InstanceNorm(3, affine=True, track_running_stats=True, spatial=2)
    y = norm(x)
    exact = torch.nn.InstanceNorm2d(3, dtype=torch.float64)(
        torch.from_numpy(np.asarray(x).astype(np.float64)).permute(0, 3, 1, 2)
    ).permute(0, 2, 3, 1)
    assert y.dtype == half
    assert norm.mean.dtype == norm.var.dtype == jnp.float32
    np.testing.assert_allclose(
        np.asarray(y).astype(np.float64), exact.numpy(), rtol=float(jnp.finfo(half).eps) / 2, atol=1e-5
    )


def test_train_and_eval_choose_the_statistics() -> None:
    norm = InstanceNorm(3, track_running_stats=True, spatial=2)
    x = jnp.asarray(random(*SHAPE), jnp.float32)
    norm.eval()
    np.testing.assert_allclose(norm(x), x / np.sqrt(1 + 1e-5), rtol=1e-5)
    assert (norm.mean[...] == 0).all()
    norm(x, use_running_average=False)
    np.testing.assert_allclose(norm.mean[...], 0.1 * x.mean((0, 1, 2)), rtol=1e-5)
    evaluated = nnx.view(norm, use_running_average=False)
    np.testing.assert_allclose(evaluated(x).mean((1, 2)), np.zeros((2, 3)), atol=1e-5)


def test_W8_the_running_variance_is_the_average_of_unbiased_ones() -> None:
    norm = InstanceNorm(3, momentum=1.0, track_running_stats=True, spatial=2)
    x = random(*SHAPE)
    norm(jnp.asarray(x, jnp.float32))
    unbiased = x.var((1, 2), ddof=1).mean(0)
    np.testing.assert_allclose(norm.var[...], unbiased, rtol=1e-5)
    assert np.abs(norm.var[...] - x.var((1, 2)).mean(0)).max() > 1e-2


@pytest.mark.parametrize(("shape", "spatial"), [((2, 1, 3), 1), ((2, 1, 1, 3), 2), ((1, 1, 3), 2)])
def test_one_value_has_no_statistics_as_in_torch(shape: tuple[int, ...], spatial: int) -> None:
    theirs: Any = {1: torch.nn.InstanceNorm1d, 2: torch.nn.InstanceNorm2d}[spatial](3)
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        theirs(torch.ones(shape).movedim(-1, -1 - spatial))
    with pytest.raises(UsageError, match="more than one value"):
        InstanceNorm(3, spatial=spatial)(jnp.ones(shape))


@pytest.mark.parametrize("shape", [(2, 5, 4), (3,), (2, 3)])
def test_an_input_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="3 features and 2 spatial axes"):
        InstanceNorm(3, affine=True, spatial=2)(jnp.ones(shape))


def test_without_anything_to_hold_any_number_of_channels_is_taken() -> None:
    x = random(2, 5, 4)
    with pytest.warns(UserWarning, match="not used because affine=False"):
        theirs = torch.nn.InstanceNorm1d(3)(torch.from_numpy(x).mT)
    assert np.allclose(InstanceNorm(3, spatial=1)(jnp.asarray(x)), theirs.mT.numpy(), atol=1e-5)
    with pytest.raises(UsageError, match="3 features"):
        InstanceNorm(3, track_running_stats=True, spatial=1)(jnp.asarray(x))


def test_an_empty_batch_stays_empty() -> None:
    norm = InstanceNorm(3, track_running_stats=True, spatial=1)
    assert norm(jnp.ones((0, 4, 3))).shape == (0, 4, 3)
    assert (norm.var[...] == 1).all()
