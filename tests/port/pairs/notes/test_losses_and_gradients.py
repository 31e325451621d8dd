"""Losses and gradients: what their notes say that no function's own tests show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

EDGES = np.array([-2.0, -1.0, 0.3, 1.5, 4.0])


def gradients(theirs: Callable[[Any], Any], ours: Callable[[Any], Any]) -> tuple[np.ndarray, np.ndarray]:
    x = torch.tensor(EDGES, requires_grad=True)
    (theirs(x) * torch.arange(1.0, 6.0)).sum().backward()
    assert x.grad is not None
    return x.grad.numpy(), np.asarray(jax.grad(lambda x: (ours(x) * jnp.arange(1.0, 6.0)).sum())(jnp.asarray(EDGES)))


def test_G3_clamp_at_its_edges(float64: None) -> None:
    """A whole gradient or none in torch, by its version; half of it in jax, and in torch between tensors."""
    expected, got = gradients(lambda x: x.clamp(-1, 1.5), lambda x: jnp.clip(x, -1, 1.5))
    at_edge = expected[1] / 2  # the weights are 1 … 5
    assert at_edge in (0, 1)
    np.testing.assert_array_equal(expected, [0, 2 * at_edge, 3, 4 * at_edge, 0])
    np.testing.assert_array_equal(got, [0, 1, 3, 2, 0])
    low, high = torch.tensor(-1.0), torch.tensor(1.5)
    np.testing.assert_array_equal(gradients(lambda x: x.clamp(low, high), jnp.abs)[0], got)

    def as_torch(x: Any) -> Any:
        passes = (x >= -1) & (x <= 1.5) if at_edge else (x > -1) & (x < 1.5)
        return jnp.where(passes, x, jax.lax.stop_gradient(jnp.clip(x, -1, 1.5)))

    expected, got = gradients(lambda x: x.clamp(-1, 1.5), as_torch)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(as_torch(jnp.asarray(EDGES)), np.clip(EDGES, -1, 1.5))


def test_G5_a_sum_of_int32_wraps_around_without_x64() -> None:
    numbers = np.array([2**30, 2**30, 2**30, 5], np.int32)
    expected = torch.from_numpy(numbers).sum()
    assert (expected.dtype, expected.item()) == (torch.int64, 3 * 2**30 + 5)
    with jax.enable_x64(False):
        wrapped = jnp.asarray(numbers).sum()
        assert (wrapped.dtype, int(wrapped)) == (jnp.int32, 3 * 2**30 + 5 - 2**32)
        assert jnp.asarray(numbers.astype(np.int64)).dtype == jnp.int32
    with jax.enable_x64(True):
        assert int(jnp.asarray(numbers).sum()) == expected.item()


def test_G7_a_number_times_booleans_is_float32_in_torch(float64: None) -> None:
    numbers, booleans = np.random.default_rng(0).normal(size=(3, 4)), np.arange(12).reshape(3, 4) % 3 == 0
    x, mask = torch.from_numpy(numbers), torch.from_numpy(booleans)
    share, ours = 0.1 * mask, 0.1 * jnp.asarray(booleans)
    assert (share.dtype, ours.dtype) == (torch.float32, jnp.float64)
    got = jnp.asarray(numbers) * ours
    assert (x * share).dtype == torch.float64  # and nothing is seen of it
    assert 1e-10 < np.abs((x * share).numpy() - got).max() < 1e-6
    np.testing.assert_array_equal(x * (0.1 * mask.to(x.dtype)), got)
