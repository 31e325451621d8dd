"""Rearranging elements between channels and space, channels last, in torch's order of channels."""

from __future__ import annotations

from math import prod

import jax

from port.errors import UsageError


def pixel_shuffle(input: jax.Array, upscale_factor: int) -> jax.Array:
    """(…, H, W, C·r²) → (…, H·r, W·r, C). Source: torch.nn.PixelShuffle; a channel's r² are ordered row by row.

    Raises:
        UsageError: channels that r² does not divide.
    """
    *lead, height, width, channels = input.shape
    r = upscale_factor
    if r < 1 or channels % r**2:
        raise UsageError(f"pixel_shuffle by {r} needs channels divisible by {r}², got shape {input.shape}")
    blocks = input.reshape(prod(lead), height, width, channels // r**2, r, r)
    return blocks.transpose(0, 1, 4, 2, 5, 3).reshape(*lead, height * r, width * r, channels // r**2)


def pixel_unshuffle(input: jax.Array, downscale_factor: int) -> jax.Array:
    """(…, H·r, W·r, C) → (…, H, W, C·r²), the inverse of `pixel_shuffle`. Source: torch.nn.PixelUnshuffle.

    Raises:
        UsageError: a height or width that r does not divide.
    """
    *lead, height, width, channels = input.shape
    r = downscale_factor
    if r < 1 or height % r or width % r:
        raise UsageError(f"pixel_unshuffle by {r} needs height and width divisible by it, got shape {input.shape}")
    blocks = input.reshape(prod(lead), height // r, r, width // r, r, channels)
    return blocks.transpose(0, 1, 3, 5, 2, 4).reshape(*lead, height // r, width // r, channels * r**2)


def channel_shuffle(input: jax.Array, groups: int) -> jax.Array:
    """Interleave ``groups`` blocks of channels: (…, C) → (…, C). Source: torch.nn.ChannelShuffle.

    Raises:
        UsageError: channels that the groups do not divide.
    """
    channels = input.shape[-1]
    if groups < 1 or channels % groups:
        raise UsageError(f"channel_shuffle needs channels divisible by groups: got {channels} and {groups}")
    blocks = input.reshape(*input.shape[:-1], groups, channels // groups)
    return blocks.swapaxes(-1, -2).reshape(input.shape)
