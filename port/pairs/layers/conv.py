"""torch.nn.Conv1d, Conv2d, Conv3d ⇄ flax.nnx.Conv, port.nn.Conv, flax.linen.Conv."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

from port.moves import Permute
from port.pairs.layers.initial import torch_initializers
from port.pairs.pair import LayerPair, ParamPair


def explicit_padding(conv: Any) -> tuple[tuple[int, int], ...]:
    """Return the zero padding before and after each spatial axis of a torch convolution."""
    if conv.padding == "valid":
        return tuple((0, 0) for _ in conv.kernel_size)
    if conv.padding == "same":
        totals = [dilation * (size - 1) for size, dilation in zip(conv.kernel_size, conv.dilation, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    return tuple((amount, amount) for amount in conv.padding)


def has_axes(spatial: int) -> Callable[[Any], bool]:
    """Return a test whether a Flax convolution's kernel_size has this many axes; an int is one axis."""

    def fits(module: Any) -> bool:
        kernel_size = module.kernel_size
        return (1 if isinstance(kernel_size, int) else len(kernel_size)) == spatial

    return fits


def _pads_with_zeros(module: Any) -> bool:
    return module.padding_mode == "zeros"


def _pads_otherwise(module: Any) -> bool:
    return module.padding_mode != "zeros"


def _arguments(module: Any) -> dict[str, Any]:
    return {
        "in_features": module.in_channels,
        "out_features": module.out_channels,
        "kernel_size": tuple(module.kernel_size),
        "strides": tuple(module.stride),
        "padding": explicit_padding(module),
        "kernel_dilation": tuple(module.dilation),
        "feature_group_count": module.groups,
        "use_bias": module.bias is not None,
    }


def _initializers(module: Any) -> dict[str, Any]:
    fan_in = module.in_channels // module.groups * prod(module.kernel_size)
    return torch_initializers(fan_in)


def _ports_arguments(module: Any) -> dict[str, Any]:
    names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
    return {**{name: getattr(module, name) for name in names}, "bias": module.bias is not None}


def _convolution(spatial: int) -> Iterator[LayerPair]:
    # (out, in/groups, *window) → (*window, in/groups, out); grouped convolutions the same.
    window = tuple(range(2, 2 + spatial))
    flaxs = LayerPair(
        torch=f"torch.nn.Conv{spatial}d",
        flax="flax.nnx.Conv",
        params=(ParamPair("weight", "kernel", (Permute((*window, 1, 0)),)), ParamPair("bias", "bias")),
        fits_torch=_pads_with_zeros,
        fits_flax=has_axes(spatial),
        arguments=_arguments,
        initializers=_initializers,
        channels=-1 - spatial,
        notes=("W2", "W3", "W24"),
    )
    ports = replace(
        flaxs,
        flax="port.nn.Conv",
        fits_torch=_pads_otherwise,
        arguments=_ports_arguments,
        initializers=LayerPair.initializers,
        notes=("W2", "W4", "W24"),
    )
    yield flaxs
    yield ports
    # For hand-written models: the weights move in the same way, whatever the padding.
    yield replace(ports, fits_torch=_pads_with_zeros)
    yield replace(flaxs, fits_torch=_pads_otherwise)
    yield replace(flaxs, flax="flax.linen.Conv", fits_torch=LayerPair.fits_torch)


PAIRS = tuple(pair for spatial in (1, 2, 3) for pair in _convolution(spatial))
