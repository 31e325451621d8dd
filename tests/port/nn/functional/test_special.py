"""Special functions against torch's, at their poles too."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import port.nn.functional as F

X = np.array([-2.0, -1.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.nan])[:, None]
Q = np.array([-3.0, -2.5, -1.0, 0.0, -0.5, 0.5, 1.0, 2.0, np.nan, -np.inf])


def test_zeta_is_torchs(float64: None) -> None:
    expected = torch.special.zeta(torch.from_numpy(X), torch.from_numpy(Q)).numpy()
    np.testing.assert_allclose(F.zeta(jnp.asarray(X), jnp.asarray(Q)), expected, rtol=1e-12)


def test_jaxs_own_is_not(float64: None) -> None:
    expected = torch.special.zeta(torch.from_numpy(X), torch.from_numpy(Q)).numpy()
    own = np.asarray(jax.scipy.special.zeta(X, Q))
    assert not np.array_equal(np.isinf(own), np.isinf(expected)), "F.zeta is needed no more"


@pytest.mark.sweep
def test_the_gradient_of_zeta_is_torchs(float64: None) -> None:
    q = torch.tensor([0.5, 1.5, -0.5], dtype=torch.float64, requires_grad=True)
    torch.special.zeta(torch.tensor(2.0, dtype=torch.float64), q).sum().backward()
    assert q.grad is not None
    ours = jax.grad(lambda q: F.zeta(jnp.array(2.0), q).sum())(jnp.asarray(q.detach().numpy()))
    np.testing.assert_allclose(ours, q.grad.numpy(), rtol=1e-12)
