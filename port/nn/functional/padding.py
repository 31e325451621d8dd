"""Padding of the spatial axes, channels last: (N, *spatial, C) or (*spatial, C)."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from port.errors import UnknownChoice, UsageError

_NUMPYS_MODE = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input: jax.Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> jax.Array:
    """`jnp.pad` in torch's order and with torch's meaning of a negative number. Source: torch.nn.functional.pad.

    Args:
        input: (N, *spatial, C) or (*spatial, C), any dtype.
        pad: elements before and after the last *spatial* axis, then before and after the one in front of it, and so
            on: (left, right, top, bottom, front, back). A negative number takes elements away: the input's own in
            mode ``"circular"``, which goes round what is left; in the others those of the padded axis, so that what
            is taken away is still reflected.
        mode: ``"constant"``, ``"reflect"`` (without the edge), ``"replicate"`` (of the edge) or ``"circular"``.
        value: what ``"constant"`` pads with; None is 0.

    Raises:
        UnknownChoice: another mode.
        UsageError: an odd number of pads, more of them than spatial axes, nothing left, or more to reflect or to go
            round than there is: a reflection stays below the axis's length, a circle within it.
    """
    if mode not in _NUMPYS_MODE:
        raise UnknownChoice("padding mode", mode, _NUMPYS_MODE)
    if len(pad) % 2 or len(pad) // 2 >= input.ndim:
        raise UsageError(
            f"pad has a number for either end of one spatial axis or more, which {input.shape} has before its "
            f"channels; got {tuple(pad)}"
        )
    channels = input.ndim - 1
    widths = {channels - 1 - place // 2: (pad[place], pad[place + 1]) for place in range(0, len(pad), 2)}
    if mode == "circular":
        input = _crop(input, widths)
    for axis, ends in widths.items():
        _check(input.shape[axis], ends, mode)
    added = [tuple(max(end, 0) for end in widths.get(axis, (0, 0))) for axis in range(input.ndim)]
    options = {"constant_values": 0 if value is None else value} if mode == "constant" else {}
    padded = jnp.pad(input, added, _NUMPYS_MODE[mode], **options)
    return padded if mode == "circular" else _crop(padded, widths)


def _crop(input: jax.Array, widths: dict[int, tuple[int, int]]) -> jax.Array:
    """Without as many elements as the negative numbers say."""
    for axis, (before, after) in widths.items():
        begin, end = max(-before, 0), input.shape[axis] - max(-after, 0)
        if begin >= end:
            raise UsageError(f"padding of {(before, after)} leaves nothing of axis {axis} of {input.shape}")
        input = jax.lax.slice_in_dim(input, begin, end, axis=axis)
    return input


def _check(length: int, ends: tuple[int, int], mode: str) -> None:
    most = {"reflect": length - 1, "circular": length}.get(mode)
    if most is not None and max(ends) > most:
        raise UsageError(f"mode {mode!r} pads an axis of {length} by {most} at most, got {ends}")
