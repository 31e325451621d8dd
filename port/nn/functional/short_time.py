"""Short-time Fourier transforms and their inverse."""

from __future__ import annotations

from math import sqrt

import jax
import jax.numpy as jnp

from port.errors import UsageError


def stft(
    input: jax.Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: jax.Array | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
) -> jax.Array:
    """(…, length) → complex (…, frequencies, frames). Source: torch.stft with ``center=False, return_complex=True``.

    Args:
        input: real or complex signals; the first frame starts at their first element.
        n_fft: length of a frame.
        hop_length: steps between frames; None is a quarter of ``n_fft``.
        win_length: length of the window, which is padded with zeros on both sides; None is ``n_fft``.
        window: multiplies each frame; None is ones.
        normalized: divide by the root of ``n_fft``.
        onesided: return only the first half of the frequencies; None does so for real signals and windows.

    Raises:
        UsageError: frames longer than the signal, or steps below 1.
    """
    length, hop = input.shape[-1], n_fft // 4 if hop_length is None else hop_length
    if not 0 < n_fft <= length or hop <= 0:
        raise UsageError(f"stft takes frames of 1 to {length} elements, and steps of at least 1: got {n_fft} and {hop}")
    filled = _filled(window, n_fft, win_length, input.dtype)
    places = jnp.arange(0, length - n_fft + 1, hop)[:, None] + jnp.arange(n_fft)
    frames = input[..., places] * filled
    half = not jnp.iscomplexobj(frames) if onesided is None else onesided
    spectrum = jnp.fft.rfft(frames) if half else jnp.fft.fft(frames)
    return (spectrum / sqrt(n_fft) if normalized else spectrum).swapaxes(-1, -2)


def istft(
    input: jax.Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: jax.Array | None = None,
    center: bool = True,
    normalized: bool = False,
    length: int | None = None,
    return_complex: bool = False,
) -> jax.Array:
    """Invert `stft`: complex spectra (…, frequencies, frames) → signals (…, length). Source: torch.istft.

    Args:
        input: as `stft` returns it.
        n_fft: length of a frame.
        hop_length: as in `stft`.
        win_length: as in `stft`.
        window: as in `stft`.
        center: whether to crop half a frame at both ends.
        normalized: as in `stft`.
        length: of the result; padded with zeros.
        return_complex: whether the signals are complex.
    """
    frames, hop = input.shape[-1], n_fft // 4 if hop_length is None else hop_length
    spectrum = input.swapaxes(-1, -2) * (sqrt(n_fft) if normalized else 1)
    # Given all frequencies of a real signal, torch too uses only the first half.
    pieces = jnp.fft.ifft(spectrum) if return_complex else jnp.fft.irfft(spectrum[..., : n_fft // 2 + 1], n_fft)
    filled = _filled(window, n_fft, win_length, input.real.dtype)
    whole = n_fft + hop * (frames - 1)
    places = jnp.arange(frames)[:, None] * hop + jnp.arange(n_fft)
    pieces = pieces * filled
    added = jnp.zeros((*pieces.shape[:-2], whole), pieces.dtype).at[..., places].add(pieces)
    weight = jnp.zeros(whole, filled.dtype).at[places].add(jnp.square(filled))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - n_fft // 2 if center else whole
    signal = added[..., start:end] / weight[start:end]
    return jnp.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, end - start - signal.shape[-1])])


def _filled(window: jax.Array | None, n_fft: int, win_length: int | None, dtype: jnp.dtype) -> jax.Array:
    """Centre the window in a frame, with zeros on both sides."""
    size = n_fft if win_length is None else win_length
    ones = jnp.ones(size, dtype) if window is None else window
    left = (n_fft - size) // 2
    return jnp.pad(ones, (left, n_fft - size - left))
