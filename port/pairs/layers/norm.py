"""torch.nn.LayerNorm, RMSNorm, GroupNorm, InstanceNorm1d to 3d ⇄ flax.nnx, port.nn and flax.linen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from port.pairs.ops.axes import Last
from port.pairs.pair import LayerPair, ParamPair

SCALE_AND_BIAS = (ParamPair("weight", "scale"), ParamPair("bias", "bias"))


def _over_one_axis(module: Any) -> bool:
    return len(module.normalized_shape) == 1


def _has_its_own_eps(module: Any) -> bool:
    return _over_one_axis(module) and module.eps is not None


def _layer_norm(module: Any) -> dict[str, Any]:
    return {
        "num_features": module.normalized_shape[0],
        "epsilon": module.eps,
        "use_scale": module.weight is not None,
        "use_bias": module.bias is not None,
        "use_fast_variance": False,
    }


def _ports_layer_norm(module: Any) -> dict[str, Any]:
    affine = module.weight is not None
    arguments = {"normalized_shape": module.normalized_shape, "eps": module.eps, "elementwise_affine": affine}
    return {**arguments, "bias": module.bias is not None}


def _rms_norm(module: Any) -> dict[str, Any]:
    arguments = {"num_features": module.normalized_shape[0], "epsilon": module.eps}
    return {**arguments, "use_scale": module.weight is not None}


def _ports_rms_norm(module: Any) -> dict[str, Any]:
    affine = module.weight is not None
    return {"normalized_shape": module.normalized_shape, "eps": module.eps, "elementwise_affine": affine}


def _group_norm(module: Any) -> dict[str, Any]:
    return {
        "num_features": module.num_channels,
        "num_groups": module.num_groups,
        "epsilon": module.eps,
        "use_scale": module.weight is not None,
        "use_bias": module.bias is not None,
        "use_fast_variance": False,
    }


def _over_trailing_axes() -> Iterator[LayerPair]:
    layer = LayerPair(
        torch="torch.nn.LayerNorm",
        flax="flax.nnx.LayerNorm",
        params=SCALE_AND_BIAS,
        fits_torch=_over_one_axis,
        arguments=_layer_norm,
        axes=Last(),
        notes=("W10", "W11"),
    )
    yield layer
    yield replace(
        layer, flax="port.nn.LayerNorm", fits_torch=LayerPair.fits_torch, arguments=_ports_layer_norm, axes=None
    )
    yield replace(layer, flax="flax.linen.LayerNorm")
    rms = replace(
        layer,
        torch="torch.nn.RMSNorm",
        flax="flax.nnx.RMSNorm",
        params=SCALE_AND_BIAS[:1],
        fits_torch=_has_its_own_eps,
        arguments=_rms_norm,
    )
    yield rms
    yield replace(rms, flax="port.nn.RMSNorm", fits_torch=LayerPair.fits_torch, arguments=_ports_rms_norm, axes=None)
    for flaxs in ("flax.nnx.RMSNorm", "flax.linen.RMSNorm"):
        # Hand-written models: the other side sets its own epsilon.
        is_twin = flaxs == rms.flax
        yield replace(rms, flax=flaxs, fits_torch=_without_eps if is_twin else _over_one_axis)


def _without_eps(module: Any) -> bool:
    return _over_one_axis(module) and module.eps is None


def _group_norms() -> Iterator[LayerPair]:
    group = LayerPair(
        torch="torch.nn.GroupNorm",
        flax="flax.nnx.GroupNorm",
        params=SCALE_AND_BIAS,
        arguments=_group_norm,
        channels=1,
        notes=("W10", "W11"),
    )
    yield group
    yield replace(group, flax="flax.linen.GroupNorm")


def _instance_norm(spatial: int) -> Iterator[LayerPair]:
    def arguments(module: Any) -> dict[str, Any]:
        return {
            "num_features": module.num_features,
            "eps": module.eps,
            "momentum": module.momentum,
            "affine": module.weight is not None,
            "track_running_stats": module.track_running_stats,
            "bias": module.bias is not None,
            "spatial": spatial,
        }

    instance = LayerPair(
        torch=f"torch.nn.InstanceNorm{spatial}d",
        flax="port.nn.InstanceNorm",
        params=(
            *SCALE_AND_BIAS,
            ParamPair("running_mean", "mean", collection="batch_stats"),
            ParamPair("running_var", "var", collection="batch_stats"),
            ParamPair("num_batches_tracked", "num_batches_tracked", collection="batch_stats", optional=True),
        ),
        fits_flax=lambda module: module.spatial == spatial,
        arguments=arguments,
        channels=-1 - spatial,
        notes=("W8", "W10", "W11"),
    )
    yield instance
    for flaxs in ("flax.nnx.InstanceNorm", "flax.linen.InstanceNorm"):
        yield replace(
            instance,
            flax=flaxs,
            params=SCALE_AND_BIAS,
            fits_torch=lambda module: not module.track_running_stats,
            fits_flax=LayerPair.fits_flax,
            arguments=LayerPair.arguments,
        )


PAIRS = (
    *_over_trailing_axes(),
    *_group_norms(),
    *(pair for spatial in (2, 1, 3) for pair in _instance_norm(spatial)),
)
