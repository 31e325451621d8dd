"""port.nn.LayerNorm and RMSNorm by themselves: dtypes, epsilons, refusals."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.errors import UsageError
from port.nn import LayerNorm, RMSNorm


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(3, 2, shape)


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("params", ["float32", "half"])
def test_half_precision_is_rounded_once(norm: Any, half: str, params: str) -> None:
    x = jnp.asarray(random(4, 3, 6), half)
    y = norm((3, 6), param_dtype=half if params == "half" else "float32")(x)
    exact = np.asarray(norm((3, 6))(x.astype(jnp.float32))).astype(np.float64)
    assert y.dtype == half
    np.testing.assert_allclose(np.asarray(y).astype(np.float64), exact, rtol=float(jnp.finfo(half).eps) / 2, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_W10_rms_norms_own_epsilon_is_that_of_the_dtype_it_computes_in(dtype: str) -> None:
    """Seen by an input whose mean square is as small: torch's documentation says the input's epsilon."""
    x = np.full((1, 4), 1e-4)
    theirs = torch.nn.RMSNorm(4, dtype=getattr(torch, dtype))(torch.from_numpy(x).to(getattr(torch, dtype)))
    ours = RMSNorm(4, param_dtype=dtype)(jnp.asarray(x, dtype))
    expected = theirs.detach().float().numpy()
    np.testing.assert_allclose(np.asarray(ours).astype(np.float32), expected, rtol=float(jnp.finfo(dtype).eps))
    with_the_inputs = RMSNorm(4, eps=float(torch.finfo(getattr(torch, dtype)).eps), param_dtype=dtype)
    agrees = np.allclose(np.asarray(with_the_inputs(jnp.asarray(x, dtype))).astype(np.float32), expected, rtol=1e-2)
    assert agrees == (dtype == "float32")


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("shape", [(6, 3), (3, 5), (6,)])
def test_another_shape_is_refused(norm: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"normalized_shape is \(3, 6\)"):
        norm((3, 6))(jnp.ones(shape))


def test_W11_the_variance_takes_two_passes() -> None:
    x = random(4, 3, 6)
    far = LayerNorm((3, 6))(jnp.asarray(x + 1e3, jnp.float32))
    near = LayerNorm((3, 6))(jnp.asarray(x, jnp.float32))
    one_pass = (x + 1e3).astype(np.float32)
    one_pass = np.square(one_pass).mean((1, 2)) - np.square(one_pass.mean((1, 2)))
    assert np.abs(far - near).max() < 1e-3
    assert np.abs(one_pass / x.var((1, 2)) - 1).max() > 1e-2
