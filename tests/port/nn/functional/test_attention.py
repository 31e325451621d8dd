"""Attention against torch's, with its options."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as F

from port.errors import UsageError
from port.nn.functional import scaled_dot_product_attention

ROUNDING = 1e-12


def arrays(heads: int = 2, of_keys: int = 2) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(0)
    return tuple(random.normal(size=(3, *shape)) for shape in ((heads, 4, 5), (of_keys, 6, 5), (of_keys, 6, 7)))


def worst(against_torch: Any, *inputs: np.ndarray, **options: Any) -> float:
    seen = against_torch(F.scaled_dot_product_attention, scaled_dot_product_attention, *inputs, **options)
    return max(seen.values())


@pytest.mark.thin(5)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": np.random.default_rng(1).normal(size=(4, 6))},
        {"attn_mask": np.random.default_rng(1).normal(size=(4, 6)) < 0.5},
    ],
    ids=["plain", "causal", "scale", "added", "boolean"],
)
def test_values_and_gradients(options: Any, against_torch: Any) -> None:
    assert worst(against_torch, *arrays(), **options) <= ROUNDING


@pytest.mark.sweep
def test_heads_that_share_keys(against_torch: Any) -> None:
    assert worst(against_torch, *arrays(4, 2), enable_gqa=True) <= ROUNDING


@pytest.mark.thin(2)
@pytest.mark.parametrize("blocked", [False, -np.inf])
def test_a_query_that_sees_nothing(blocked: Any, against_torch: Any) -> None:
    mask = np.ones((4, 6), bool) if blocked is False else np.zeros((4, 6))
    mask[1] = blocked
    assert worst(against_torch, *arrays(), attn_mask=mask) <= ROUNDING


def test_another_scale_is_seen(against_torch: Any) -> None:
    def unscaled(query: Any, key: Any, value: Any) -> Any:
        return scaled_dot_product_attention(query, key, value, scale=1.0)

    assert max(against_torch(F.scaled_dot_product_attention, unscaled, *arrays()).values()) > 1e-3


def test_what_does_not_go_together_is_refused() -> None:
    query, key, value = map(jnp.asarray, arrays(3, 2))
    with pytest.raises(UsageError, match="multiple"):
        scaled_dot_product_attention(query, key, value, enable_gqa=True)
    with pytest.raises(UsageError, match="is_causal"):
        scaled_dot_product_attention(query, query, query, jnp.ones((4, 4), bool), is_causal=True)
