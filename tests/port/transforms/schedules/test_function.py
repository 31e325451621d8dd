"""Schedules of Python functions, beside torch's."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch.optim.lr_scheduler import LambdaLR, MultiplicativeLR

from port import transforms
from port.errors import UsageError


def with_if(step: int) -> float:
    return (step + 1) / 5 if step < 5 else 0.5 * (1 + math.cos(step / 10))


def test_a_function_that_is_called_beforehand(torch_rates: Any, rates: Any) -> None:
    want = torch_rates(lambda optimizer: LambdaLR(optimizer, with_if), 12)
    base = want[0] / with_if(0)
    np.testing.assert_array_equal(rates(transforms.lambda_lr(base, with_if, 12), 12), want)
    np.testing.assert_allclose(rates(transforms.by_function(with_if, 12), 12), want / base, rtol=1e-15)
    with pytest.raises(UsageError, match="tabulated for 12 steps; step 12 is beyond"):
        transforms.lambda_lr(base, with_if, 12)(12)
    with pytest.raises(UsageError, match="at least 1 step"):
        transforms.by_function(with_if, 0)


def test_one_that_jax_traces(torch_rates: Any, rates: Any) -> None:
    # As an int32 the count would be divided in float32.
    want = torch_rates(lambda optimizer: LambdaLR(optimizer, lambda step: 1 / (3 + step)), 12)
    got = rates(transforms.lambda_lr(want[0] * 3, lambda step: 1 / (3 + step)), 12)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-15)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(transforms.by_function(with_if))(jnp.int32(3))


def test_multiplicative_lr(torch_rates: Any, rates: Any) -> None:
    want = torch_rates(lambda optimizer: MultiplicativeLR(optimizer, lambda step: 1 - 0.1 / step), 12)
    got = rates(transforms.multiplicative_lr(want[0], lambda step: 1 - 0.1 / step, 12), 12)
    np.testing.assert_allclose(got, want, rtol=1e-15)
    assert np.abs(rates(transforms.multiplicative_lr(want[0], lambda step: 0.9, 12), 12) - want).max() > 1e-3
