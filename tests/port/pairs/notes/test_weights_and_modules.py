"""Weights and modules: what their notes say that no layer's own tests show."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx


@pytest.mark.sweep
def test_W16_torchs_own_function_has_the_mask_of_jaxs(float64: None) -> None:
    """True attends in scaled_dot_product_attention; a row that is blocked as a whole is 0, in jax the values' mean."""
    random = np.random.default_rng(0)
    query, key, value = (random.normal(size=(2, length, 3)) for length in (4, 5, 5))
    attends = random.random((4, 5)) < 0.6
    attends[:, 1], attends[2] = True, False

    expected = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (query, key, value)), torch.from_numpy(attends)
    ).numpy()
    weights = jax.nn.softmax(query @ key.swapaxes(1, 2) / np.sqrt(3), where=attends, axis=-1)
    others = [0, 1, 3]
    np.testing.assert_allclose((weights @ value)[:, others], expected[:, others], rtol=1e-12)
    assert (expected[:, 2] == 0).all()
    # One head, in jax's own function, which computes in float32.
    heads = [jnp.asarray(x)[:, :, None] for x in (query, key, value)]
    blocked = jax.nn.dot_product_attention(*heads, mask=jnp.asarray(attends)[None, None])[:, 2, 0]
    np.testing.assert_allclose(blocked, value.mean(1), rtol=1e-5)

    inverted = jax.nn.softmax(query @ key.swapaxes(1, 2) / np.sqrt(3), where=~attends, axis=-1) @ value
    assert np.abs(inverted - expected)[:, others].max() > 1e-2


def test_W25_a_layers_own_stream_gives_another_mask_than_the_key_does() -> None:
    x, key = jnp.ones((9, 31)), jax.random.fold_in(jax.random.key(3), 0)
    dropped = jax.random.bernoulli(key, 0.5, x.shape) == 0
    own = nnx.Dropout(0.5, rngs=nnx.Rngs(3))(x) == 0
    assert 0.2 < (own != dropped).mean() < 0.8
    given = nnx.Dropout(0.5)(x, rngs=key) == 0
    np.testing.assert_array_equal(given, dropped)
