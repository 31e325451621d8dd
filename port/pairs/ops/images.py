"""torch.nn.functional on images: convolution, pooling, resizing and other operators with channels.

The JAX expressions are channels-last; for torch's layout they are wrapped in two moveaxis.
"""

from __future__ import annotations

from typing import Any

from port.pairs.ops.axes import Spatial
from port.pairs.ops.operator_pair import OperatorPair, spatial

_F = "torch.nn.functional."


def on_images(
    name: str,
    last: str,
    *options: str,
    axes: int | None,
    results: int | None = None,
    several: bool = False,
    aten: str | None = None,
    **more: Any,
) -> OperatorPair:
    """Pair a function of ``input`` and options."""
    return spatial(
        f"{_F}{name}",
        f"aten.{name}" if aten is None else aten,
        f"{_F}{name}({', '.join(('input', *options))})",
        Spatial(axes, last, results, several),
        **more,
    )


def _convolution(rank: int) -> OperatorPair:
    kernel = f"jnp.transpose(weight, {(*range(2, rank + 2), 1, 0)})"
    options = ("bias", "stride", "padding", "dilation", "groups")
    return on_images(
        f"conv{rank}d",
        f"F.conv(input, {kernel}, {', '.join(options)})",
        "weight",
        *options,
        axes=rank,
        left_out={"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1},
        notes=("W2", "W3", "G6"),
    )


def _transposed(rank: int) -> OperatorPair:
    kernel = f"jnp.transpose(weight, {(*range(2, rank + 2), 1, 0)})"
    options = ("bias", "stride", "padding", "output_padding", "groups", "dilation")
    return on_images(
        f"conv_transpose{rank}d",
        f"F.conv_transpose(input, {kernel}, {', '.join(options)})",
        "weight",
        *options,
        axes=rank,
        left_out={"bias": None, "stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1},
        notes=("W5", "G6"),
    )


def _average(rank: int) -> OperatorPair:
    return on_images(
        f"avg_pool{rank}d",
        "F.avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad)",
        *("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"),
        axes=rank,
        only_if="isinstance(kernel_size, tuple)",
        left_out={"stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True},
        notes=("W18",),
    )


def _maximum(rank: int, indices: bool) -> OperatorPair:
    more = "return_indices=True" if indices else ""
    return on_images(
        f"max_pool{rank}d",
        f"F.max_pool(input, kernel_size, stride, padding, dilation, ceil_mode{', ' * indices}{more})",
        *("kernel_size", "stride", "padding", "dilation", "ceil_mode=ceil_mode", *[more] * indices),
        axes=rank,
        aten=f"aten.max_pool{rank}d{'_with_indices' * indices}",
        several=indices,
        only_if="isinstance(kernel_size, tuple)",
        left_out={"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False},
        schema={"return_indices": ""} if indices else {},
        notes=("W20",),
    )


def _adaptive_average(rank: int) -> OperatorPair:
    return on_images(
        f"adaptive_avg_pool{rank}d",
        "F.adaptive_avg_pool(input, output_size)",
        "output_size",
        axes=rank,
        only_if="isinstance(output_size, tuple)",
        notes=("W19",),
    )


def _adaptive_maximum(rank: int, indices: bool) -> OperatorPair:
    more = ["return_indices=True"] * indices
    return on_images(
        f"adaptive_max_pool{rank}d",
        f"F.adaptive_max_pool({', '.join(['input', 'output_size', *more])})",
        *("output_size", *more),
        axes=rank,
        aten=f"aten.adaptive_max_pool{rank}d" if indices else "",
        schema={"return_indices": ""} if indices else {},
        several=indices,
        only_if="isinstance(output_size, tuple)",
        notes=("W19",),
    )


PAIRS: tuple[OperatorPair, ...] = (
    *(_convolution(rank) for rank in (1, 2, 3)),
    *(_transposed(rank) for rank in (1, 2, 3)),
    *(_average(rank) for rank in (1, 2, 3)),
    *(_maximum(rank, indices) for rank in (1, 2, 3) for indices in (False, True)),
    *(_adaptive_average(rank) for rank in (1, 2, 3)),
    *(_adaptive_maximum(rank, indices) for rank in (1, 2, 3) for indices in (False, True)),
    on_images(
        "interpolate",
        "F.interpolate(input, size, scale_factor, mode, align_corners)",
        *("size", "scale_factor", "mode", "align_corners"),
        axes=None,
        aten="",
        left_out={"size": None, "scale_factor": None, "mode": "nearest", "align_corners": None},
        notes=("W21",),
    ),
    on_images("prelu", "jnp.where(input > 0, input, weight * input)", "weight", axes=None, only_if="input.ndim >= 2"),
    OperatorPair(
        f"{_F}prelu",
        "aten.prelu",
        f"{_F}prelu(input, weight)",
        "jnp.where(input > 0, input, weight * input)",
        only_if="input.ndim == 1 and weight.shape == (1,)",
    ),
)
