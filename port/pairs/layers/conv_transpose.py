"""torch.nn.ConvTranspose1d, 2d, 3d ⇄ flax.nnx.ConvTranspose, port.nn.ConvTranspose, flax.linen.ConvTranspose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from math import prod
from typing import Any

from port.moves import Flip, Permute
from port.pairs.layers.conv import has_axes
from port.pairs.layers.initial import torch_initializers
from port.pairs.pair import LayerPair, ParamPair


def _padding(module: Any) -> tuple[tuple[int, int], ...]:
    """Return the padding of the dilated input; torch's own padding crops the result instead."""
    before = (d * (k - 1) - p for k, p, d in zip(module.kernel_size, module.padding, module.dilation, strict=True))
    return tuple((low, low + extra) for low, extra in zip(before, module.output_padding, strict=True))


def _arguments(module: Any) -> dict[str, Any]:
    return {
        "in_features": module.in_channels,
        "out_features": module.out_channels,
        "kernel_size": tuple(module.kernel_size),
        "strides": tuple(module.stride),
        "padding": _padding(module),
        "kernel_dilation": tuple(module.dilation),
        "use_bias": module.bias is not None,
        "transpose_kernel": True,
    }


def _initializers(module: Any) -> dict[str, Any]:
    fan_in = module.out_channels // module.groups * prod(module.kernel_size)
    return torch_initializers(fan_in)


def _ports_arguments(module: Any) -> dict[str, Any]:
    names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "output_padding", "groups", "dilation")
    return {**{name: getattr(module, name) for name in names}, "bias": module.bias is not None}


_sized_at_calls: ContextVar[list[Any] | None] = ContextVar("sized_at_calls", default=None)


@contextmanager
def output_sizes_at_calls() -> Iterator[None]:
    """Context manager in which layers marked by `given_an_output_size` get the twin that takes an output size."""
    token = _sized_at_calls.set([])
    try:
        yield
    finally:
        _sized_at_calls.reset(token)


def given_an_output_size(module: Any) -> None:
    """Mark a torch layer as called with an ``output_size``, which Flax's class does not take.

    Raises:
        RuntimeError: outside of `output_sizes_at_calls`.
    """
    sized = _sized_at_calls.get()
    if sized is None:
        raise RuntimeError("layers can be marked only within `output_sizes_at_calls`")
    sized.append(module)


def _as_flaxs(module: Any) -> bool:
    return module.groups == 1 and not any(module is sized for sized in _sized_at_calls.get() or ())


def _is_transposed(transposed: bool, has_its_axes: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda module: module.transpose_kernel == transposed and has_its_axes(module)


def _convolution(spatial: int) -> Iterator[LayerPair]:
    window, has_its_axes = tuple(range(2, 2 + spatial)), has_axes(spatial)
    flaxs = LayerPair(
        torch=f"torch.nn.ConvTranspose{spatial}d",
        flax="flax.nnx.ConvTranspose",
        # (in, out/groups, *window) → (*window, out/groups, in)
        params=(ParamPair("weight", "kernel", (Permute((*window, 1, 0)),)), ParamPair("bias", "bias")),
        fits_torch=_as_flaxs,
        fits_flax=_is_transposed(True, has_its_axes),
        arguments=_arguments,
        initializers=_initializers,
        channels=-1 - spatial,
        notes=("W5", "W24"),
    )
    yield flaxs
    # Groups, and an output_size at the call, neither of which Flax's takes.
    yield replace(
        flaxs,
        flax="port.nn.ConvTranspose",
        fits_torch=LayerPair.fits_torch,
        fits_flax=has_its_axes,
        arguments=_ports_arguments,
        initializers=LayerPair.initializers,
    )
    # With transpose_kernel=False the kernel is a convolution's: (*window, in, out), flipped.
    flipped = replace(
        flaxs,
        params=(
            ParamPair("weight", "kernel", (Permute((*window, 0, 1)), Flip(tuple(range(spatial))))),
            ParamPair("bias", "bias"),
        ),
        fits_flax=_is_transposed(False, has_its_axes),
        arguments=lambda module: {**_arguments(module), "transpose_kernel": False},
        # The initializers would confuse its fan-in and fan-out.
        initializers=LayerPair.initializers,
    )
    yield flipped
    yield replace(flaxs, flax="flax.linen.ConvTranspose")
    yield replace(flipped, flax="flax.linen.ConvTranspose")


PAIRS = tuple(pair for spatial in (1, 2, 3) for pair in _convolution(spatial))
