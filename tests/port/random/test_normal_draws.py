"""Normal numbers from a key: jax's own, in both precisions, and not others."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from port.errors import UsageError
from port.random import fold_in, key
from port.random.normal_draws import normal

LIMITS = {torch.float32: 2e-6, torch.float64: 2e-15}


@pytest.mark.parametrize("dtype", LIMITS)
def test_the_numbers_are_jaxs(dtype: torch.dtype) -> None:
    x64 = dtype == torch.float64
    with jax.enable_x64(x64):
        theirs = np.asarray(jax.random.normal(jax.random.fold_in(jax.random.key(3), 5), (700, 300)))
    ours = normal(fold_in(key(3), 5), (700, 300), x64=x64)
    assert ours.dtype == dtype and abs(theirs).max() > 4.2  # every piece of the approximation in float32
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=LIMITS[dtype], atol=LIMITS[dtype])
    other = normal(fold_in(key(3), 6), (700, 300), x64=x64)
    assert abs(other.numpy() - theirs).max() > 1


def test_far_from_the_mean() -> None:
    """The pieces that hardly a draw reaches: where jax's inverse error function is asked directly."""
    from port.random.normal_draws import _erf_inv

    x = 1 - 10.0 ** -np.arange(1, 16)
    with jax.enable_x64(True):
        theirs = np.asarray(jax.lax.erf_inv(jax.numpy.asarray(x)))
    np.testing.assert_allclose(_erf_inv(torch.from_numpy(x)).numpy(), theirs, rtol=2e-15)


def test_a_dtype_that_is_not_drawn() -> None:
    with pytest.raises(UsageError, match=r"normal draws torch.float32 and torch.float64, but dtype is torch.bfloat16"):
        normal(key(0), (2,), torch.bfloat16)
