"""torch.nn.functional on images, without windows: resizing, sampling, shuffles, norms over channels."""

from __future__ import annotations

from port.pairs.ops.images import on_images
from port.pairs.ops.operator_pair import OperatorPair

_OTHERS = "(0, *range(2, input.ndim))"
_F = "torch.nn.functional."
_FLAG = {"cudnn_enabled": ""}
_AFFINE = {"weight": None, "bias": None, "eps": 1e-5}


def _resized(aten: str, mode: str, rank: int, corners: bool = False, antialias: bool = False) -> OperatorPair:
    """Pair one of ATen's operators, which has one for each mode and number of axes."""
    options = [f'mode="{mode}"', "align_corners=align_corners" * corners, "antialias=True" * antialias]
    said = ", ".join(("size, scale_factor", *filter(None, options)))
    return on_images(
        "interpolate",
        f"F.interpolate(input, {said})",
        *said.split(", "),
        axes=rank,
        aten=f"aten.{aten}{rank}d{'_aa' * antialias}",
        only_if=f"input.ndim == {rank + 2}",
        left_out={"size": None, "scale_factor": None, **({"align_corners": None} if corners else {})},
        notes=("W21",),
        schema={"output_size": "size", "scale_factors": "scale_factor", "mode": "", "antialias": ""},
    )


PAIRS: tuple[OperatorPair, ...] = (
    *(_resized("upsample_nearest", "nearest", rank) for rank in (1, 2, 3)),
    *(_resized("_upsample_nearest_exact", "nearest-exact", rank) for rank in (1, 2, 3)),
    _resized("upsample_linear", "linear", 1, corners=True),
    _resized("upsample_bilinear", "bilinear", 2, corners=True),
    _resized("upsample_trilinear", "trilinear", 3, corners=True),
    _resized("upsample_bicubic", "bicubic", 2, corners=True),
    _resized("_upsample_bilinear", "bilinear", 2, corners=True, antialias=True),
    _resized("_upsample_bicubic", "bicubic", 2, corners=True, antialias=True),
    on_images(
        "grid_sample",
        "F.grid_sample(input, grid, mode, padding_mode, align_corners)",
        *("grid", "mode", "padding_mode", "align_corners"),
        axes=None,
        aten="aten.grid_sampler",
        only_if='mode != "bicubic" or input.ndim == 4',
        left_out={"mode": "bilinear", "padding_mode": "zeros", "align_corners": None},
        schema={"interpolation_mode": "mode"},
    ),
    OperatorPair(
        f"{_F}affine_grid",
        "aten.affine_grid_generator",
        f"{_F}affine_grid(theta, size, align_corners)",
        "F.affine_grid(theta, size, align_corners)",
        left_out={"align_corners": None},
    ),
    *(
        OperatorPair(
            f"torch.ops.aten.max_unpool{axes}d",
            f"aten.max_unpool{axes}d",
            f"torch.ops.aten.max_unpool{axes}d(input, indices, output_size{more})",
            f"jnp.moveaxis(F.unpool(jnp.moveaxis(input, {-1 - axes}, -1), jnp.moveaxis(indices, {-1 - axes}, -1),"
            f" output_size), -1, {-1 - axes})",
        )
        for axes, more in ((2, ""), (3, ", stride, padding"))
    ),
    # %% Shuffles and blocks
    on_images("pixel_shuffle", "F.pixel_shuffle(input, upscale_factor)", "upscale_factor", axes=2),
    on_images("pixel_unshuffle", "F.pixel_unshuffle(input, downscale_factor)", "downscale_factor", axes=2),
    on_images("channel_shuffle", "F.channel_shuffle(input, groups)", "groups", axes=None),
    on_images(
        "unfold",
        "F.unfold(input, kernel_size, dilation, padding, stride)",
        *("kernel_size", "dilation", "padding", "stride"),
        axes=2,
        results=1,
        aten="aten.im2col",
        left_out={"dilation": 1, "padding": 0, "stride": 1},
    ),
    on_images(
        "fold",
        "F.fold(input, output_size, kernel_size, dilation, padding, stride)",
        *("output_size", "kernel_size", "dilation", "padding", "stride"),
        axes=1,
        results=2,
        aten="aten.col2im",
        left_out={"dilation": 1, "padding": 0, "stride": 1},
    ),
    # %% Norms over channels
    on_images(
        "group_norm",
        "F.group_norm(input, num_groups, weight, bias, eps)",
        *("num_groups", "weight", "bias", "eps"),
        axes=None,
        left_out=_AFFINE,
        schema=_FLAG,
        notes=("W10",),
    ),
    on_images(
        "instance_norm",
        "F.instance_norm(input, weight, bias, eps)",
        *("weight=weight", "bias=bias", "use_input_stats=True", "eps=eps"),
        axes=None,
        only_if="input.ndim > 2",
        left_out=_AFFINE,
        schema={"running_mean": "", "running_var": "", "momentum": "", **_FLAG},
        notes=("W10",),
    ),
    *(
        on_images(
            "batch_norm",
            f"(input - running_mean) * lax.rsqrt(running_var + eps){' * weight' * weight}{' + bias' * bias}",
            *("running_mean", "running_var", "weight", "bias", "eps=eps"),
            axes=None,
            only_if=f"weight is {'not ' * weight}None and bias is {'not ' * bias}None and running_mean is not None",
            left_out=_AFFINE,
            notes=("W10",),
        )
        for weight in (True, False)
        for bias in (True, False)
    ),
    on_images(
        "batch_norm",
        "F.batch_norm(input, weight, bias, eps)",
        *("running_mean", "running_var", "weight", "bias", "training=True", "eps=eps"),
        axes=None,
        only_if="running_mean is None and running_var is None",
        left_out=_AFFINE,
        notes=("W10", "W11"),
    ),
    # functional.batch_norm in ATen, with the statistics that its backward uses.
    OperatorPair(
        "torch.ops.aten._native_batch_norm_legit.no_stats",
        "aten._native_batch_norm_legit",
        "torch.ops.aten._native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps)",
        "(jnp.moveaxis(F.batch_norm(jnp.moveaxis(input, 1, -1), weight, bias, eps), -1, 1),"
        f" *map(lax.stop_gradient, (input.mean({_OTHERS}), lax.rsqrt(input.var({_OTHERS}) + eps))))",
        only_if="training",
        notes=("W10", "W11"),
    ),
    on_images(
        "local_response_norm",
        "F.local_response_norm(input, size, alpha, beta, k)",
        *("size", "alpha", "beta", "k"),
        axes=None,
        aten="",
        left_out={"alpha": 1e-4, "beta": 0.75, "k": 1.0},
    ),
)
