"""Padding of the spatial axes, channels last: (N, *spatial, C) or (*spatial, C)."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from port.errors import UnknownChoice, UsageError

_NUMPYS_MODE = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input: jax.Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> jax.Array:
    """`jnp.pad` with torch's order and meaning of negative numbers. Source: torch.nn.functional.pad.

    Args:
        input: (N, *spatial, C) or (*spatial, C), any dtype.
        pad: elements before and after the last *spatial* axis, then before and after the axis in front of it, and so
            on: (left, right, top, bottom, front, back). A negative number removes elements: in mode ``"circular"``
            before padding, in the others after it, so that removed elements are still reflected.
        mode: ``"constant"``, ``"reflect"`` (without the edge), ``"replicate"`` (of the edge) or ``"circular"``.
        value: what ``"constant"`` pads with; None is 0.

    Raises:
        UnknownChoice: an unknown mode.
        UsageError: an odd number of pads, pads for more axes than there are, an empty result, or a pad that is too
            large: a reflection must be shorter than the axis, a circular pad at most as long.
    """
    if mode not in _NUMPYS_MODE:
        raise UnknownChoice("padding mode", mode, _NUMPYS_MODE)
    if len(pad) % 2 or len(pad) // 2 >= input.ndim:
        raise UsageError(
            f"pad needs two numbers for each spatial axis, and {input.shape} has {input.ndim - 1} axes before its "
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
    """Remove the elements that negative widths ask for."""
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
