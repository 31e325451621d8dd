"""Shuffles of channels and space against torch's."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as F

import port.nn.functional as ours
from port.errors import UsageError


def same(against_torch: Any, theirs: Any, twin: Any, shape: tuple[int, ...], channels: int) -> bool:
    x = np.random.default_rng(0).normal(size=shape)
    seen = against_torch(theirs, lambda x: jnp.moveaxis(twin(x), -1, channels), x, channels=channels)
    return set(seen.values()) == {0.0}


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_pixel_shuffle_and_back(lead: tuple[int, ...], against_torch: Any) -> None:
    shape, back = (*lead, 18, 4, 5), (*lead, 2, 6, 9)
    assert same(
        against_torch,
        partial(F.pixel_shuffle, upscale_factor=3),
        partial(ours.pixel_shuffle, upscale_factor=3),
        shape,
        -3,
    )
    unshuffle = partial(ours.pixel_unshuffle, downscale_factor=3)
    assert same(against_torch, partial(F.pixel_unshuffle, downscale_factor=3), unshuffle, back, -3)
    x = np.random.default_rng(0).normal(size=(*lead, 4, 5, 18))
    np.testing.assert_array_equal(unshuffle(ours.pixel_shuffle(x, 3)), jnp.asarray(x))


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 4, 5), (2, 6, 2, 3, 4)])
def test_channel_shuffle(shape: tuple[int, ...], against_torch: Any) -> None:
    theirs = partial(F.channel_shuffle, groups=3)
    assert same(against_torch, theirs, partial(ours.channel_shuffle, groups=3), shape, 1)
    assert not same(against_torch, theirs, partial(ours.channel_shuffle, groups=2), shape, 1)


def test_channels_in_another_order_are_seen(against_torch: Any) -> None:
    def depth_to_space(x: jnp.ndarray) -> jnp.ndarray:
        """Of r²·C channels, C the faster: TensorFlow's order."""
        n, height, width, channels = x.shape
        blocks = x.reshape(n, height, width, 3, 3, channels // 9)
        return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, 3 * height, 3 * width, channels // 9)

    assert not same(against_torch, partial(F.pixel_shuffle, upscale_factor=3), depth_to_space, (2, 18, 4, 5), -3)


@pytest.mark.parametrize(
    "call",
    [
        partial(ours.pixel_shuffle, upscale_factor=2),
        partial(ours.pixel_unshuffle, downscale_factor=2),
        partial(ours.channel_shuffle, groups=2),
    ],
)
def test_what_does_not_divide_is_refused(call: Any) -> None:
    with pytest.raises(UsageError, match="divisible"):
        call(jnp.ones((2, 5, 7, 3)))


def test_the_dtype_is_kept() -> None:
    x = jnp.ones((2, 4, 6, 8), jnp.bfloat16)
    assert {f(x, 2).dtype for f in (ours.pixel_shuffle, ours.pixel_unshuffle, ours.channel_shuffle)} == {x.dtype}
