"""Accumulation: what its notes say of memory beyond the lesson's model."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_A6_temporary_memory_grows_with_the_channels_square(dtype: str, optimized: None, float64: None) -> None:
    def temporary(channels: int, grouped: bool = True, batch: int = 1) -> int:
        groups = channels if grouped else 1

        def loss(kernel: Any, x: Any) -> Any:
            layout = ("NHWC", "HWIO", "NHWC")
            y = jax.lax.conv_general_dilated(
                x, kernel, (1, 1), "SAME", dimension_numbers=layout, feature_group_count=groups
            )
            return jnp.square(y).sum()

        kernel = jax.ShapeDtypeStruct((3, 3, channels // groups, channels), dtype)
        x = jax.ShapeDtypeStruct((batch, 7, 7, channels), dtype)
        return jax.jit(jax.grad(loss)).lower(kernel, x).compile().memory_analysis().temp_size_in_bytes

    full_kernel = 9 * 192**2 * jnp.dtype(dtype).itemsize
    assert temporary(192) >= full_kernel
    assert temporary(192) > 10 * temporary(48)  # the channels are four times as many
    assert temporary(192, batch=2) < 1.2 * temporary(192)
