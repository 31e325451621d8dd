"""Pooling ⇄ flax.nnx.max_pool and avg_pool, or port.nn.functional's for options that Flax lacks.

The twins infer the number of spatial axes from the length of ``kernel_size`` or ``output_size``; channels are last.
"""

from __future__ import annotations

from typing import Any

from port.pairs.layers.sizes import for_each_axis
from port.pairs.pair import LayerPair, ParamPair


def _window(module: Any, spatial: int) -> dict[str, Any]:
    """Return kernel, stride and padding under Flax's names."""
    kernel, stride, padding = (
        for_each_axis(value, spatial) for value in (module.kernel_size, module.stride, module.padding)
    )
    return {"window_shape": kernel, "strides": stride, "padding": tuple((pad, pad) for pad in padding)}


def _options(module: Any, spatial: int, *names: str) -> dict[str, Any]:
    """Return kernel, stride and padding under torch's names, and further attributes ``names``."""
    sizes = {name: for_each_axis(getattr(module, name), spatial) for name in ("kernel_size", "stride", "padding")}
    return sizes | {name: getattr(module, name) for name in names}


def _max_pool(spatial: int) -> tuple[LayerPair, LayerPair]:
    def is_flaxs(module: Any) -> bool:
        plain = set(for_each_axis(module.dilation, spatial)) == {1}
        return plain and not module.ceil_mode and not module.return_indices

    def arguments(module: Any) -> dict[str, Any]:
        dilation = for_each_axis(module.dilation, spatial)
        return _options(module, spatial, "ceil_mode", "return_indices") | {"dilation": dilation}

    return _either(f"MaxPool{spatial}d", "max_pool", spatial, is_flaxs, arguments, "W20")


def _avg_pool(spatial: int) -> tuple[LayerPair, LayerPair]:
    def is_flaxs(module: Any) -> bool:
        # Without padding Flax counts elements in float32, which would widen half precision.
        counts_all = module.count_include_pad or not any(for_each_axis(module.padding, spatial))
        return counts_all and not module.ceil_mode and getattr(module, "divisor_override", None) is None

    def arguments(module: Any) -> dict[str, Any]:
        divisor = {"divisor_override": module.divisor_override} if spatial > 1 else {}
        return _options(module, spatial, "ceil_mode", "count_include_pad") | divisor

    return _either(f"AvgPool{spatial}d", "avg_pool", spatial, is_flaxs, arguments, "W18")


def _either(
    layer: str, function: str, spatial: int, is_flaxs: Any, arguments: Any, note: str
) -> tuple[LayerPair, LayerPair]:
    """Return the pair with Flax's pooling where it is equivalent, then the one with ours."""
    torch, channels = f"torch.nn.{layer}", -spatial - 1
    return (
        LayerPair(
            torch=torch,
            flax=f"flax.nnx.{function}",
            fits_torch=is_flaxs,
            arguments=lambda module: _window(module, spatial),
            channels=channels,
            notes=(note,),
        ),
        LayerPair(
            torch=torch,
            flax=f"port.nn.functional.{function}",
            arguments=arguments,
            channels=channels,
            notes=(note,),
        ),
    )


def _adaptive_avg_pool(spatial: int) -> tuple[LayerPair, LayerPair]:
    torch, channels = f"torch.nn.AdaptiveAvgPool{spatial}d", -spatial - 1

    def is_mean(module: Any) -> bool:
        return set(for_each_axis(module.output_size, spatial)) == {1}

    return (
        LayerPair(
            torch=torch,
            flax="jax.numpy.mean",
            fits_torch=is_mean,
            arguments=lambda module: {"axis": tuple(range(-spatial - 1, -1)), "keepdims": True},
            channels=channels,
        ),
        LayerPair(
            torch=torch,
            flax="port.nn.functional.adaptive_avg_pool",
            arguments=lambda module: {"output_size": for_each_axis(module.output_size, spatial)},
            channels=channels,
            notes=("W19",),
        ),
    )


def _adaptive_max_pool(spatial: int) -> LayerPair:
    def arguments(module: Any) -> dict[str, Any]:
        return {
            "output_size": for_each_axis(module.output_size, spatial),
            "return_indices": module.return_indices,
        }

    return LayerPair(
        torch=f"torch.nn.AdaptiveMaxPool{spatial}d",
        flax="port.nn.functional.adaptive_max_pool",
        arguments=arguments,
        channels=-spatial - 1,
        notes=("W19", "G3"),
    )


def _lp_pool(spatial: int) -> LayerPair:
    def arguments(module: Any) -> dict[str, Any]:
        stride = module.stride
        return {
            "norm_type": module.norm_type,
            "kernel_size": for_each_axis(module.kernel_size, spatial),
            "stride": None if stride is None else for_each_axis(stride, spatial),
            "ceil_mode": module.ceil_mode,
        }

    return LayerPair(
        torch=f"torch.nn.LPPool{spatial}d",
        flax="port.nn.functional.lp_pool",
        arguments=arguments,
        channels=-spatial - 1,
        notes=("W18",),
    )


def _fractional_max_pool(spatial: int) -> LayerPair:
    def arguments(module: Any) -> dict[str, Any]:
        samples = module._random_samples
        if samples is not None:
            # The samples are data, which a module on the meta device lacks.
            samples = samples.new_zeros(samples.shape, device="cpu") if samples.is_meta else samples.detach().cpu()
        return {
            "kernel_size": for_each_axis(module.kernel_size, spatial),
            "output_size": module.output_size,
            "output_ratio": module.output_ratio,
            "return_indices": module.return_indices,
            "random_samples": None if samples is None else samples.double().numpy(),
        }

    return LayerPair(
        torch=f"torch.nn.FractionalMaxPool{spatial}d",
        flax="port.nn.FractionalMaxPool",
        params=(ParamPair("_random_samples", "random_samples", collection="batch_stats"),),
        fits_flax=lambda module: len(module.kernel_size) == spatial,
        arguments=arguments,
        channels=-spatial - 1,
        notes=("W25",),
    )


def _max_unpool(spatial: int) -> LayerPair:
    return LayerPair(
        torch=f"torch.nn.MaxUnpool{spatial}d",
        flax="port.nn.functional.max_unpool",
        arguments=lambda module: _options(module, spatial),
        channels=-spatial - 1,
        channel_inputs=(0, 1),
    )


PAIRS: tuple[LayerPair, ...] = (
    *(pair for spatial in (1, 2, 3) for pair in _max_pool(spatial)),
    *(pair for spatial in (1, 2, 3) for pair in _avg_pool(spatial)),
    *(pair for spatial in (1, 2, 3) for pair in _adaptive_avg_pool(spatial)),
    *(_adaptive_max_pool(spatial) for spatial in (1, 2, 3)),
    *(_lp_pool(spatial) for spatial in (1, 2, 3)),
    *(_fractional_max_pool(spatial) for spatial in (2, 3)),
    *(_max_unpool(spatial) for spatial in (1, 2, 3)),
)
