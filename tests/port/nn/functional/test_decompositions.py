"""The older forms of decompositions against torch's; signs of singular vectors are free, and taken out."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import port.nn.functional as F


@pytest.mark.parametrize("some", [True, False])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5)])
def test_svd_is_torchs(shape: tuple[int, ...], some: bool, float64: None) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=shape) + 1j * random.normal(size=shape)
    expected = [part.resolve_conj() for part in torch.svd(torch.from_numpy(x), some=some)]
    u, s, v = F.svd(jnp.asarray(x), some)
    assert [part.shape for part in (u, s, v)] == [tuple(part.shape) for part in expected]
    np.testing.assert_allclose(s, expected[1], rtol=1e-12)
    k = min(shape[-2:])
    for ours, theirs in ((u, expected[0].numpy()), (v, expected[2].numpy())):
        projected = [part[..., :k] @ part[..., :k].swapaxes(-1, -2).conj() for part in (np.asarray(ours), theirs)]
        np.testing.assert_allclose(*projected, atol=1e-12)
    again = (u[..., :k] * s[..., None, :]) @ v[..., :k].mT.conj()
    np.testing.assert_allclose(again, x, atol=1e-12)
    # V itself, and not its transpose.
    assert np.abs((u[..., :k] * s[..., None, :])[..., :3, :k] @ v[..., :k, :k] - x[..., :3, :k]).max() > 1e-2
