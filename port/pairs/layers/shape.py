"""Layers that move or regroup elements: shuffles, Fold and Unfold, Flatten and Unflatten, Identity."""

from __future__ import annotations

from typing import Any

from port.pairs.pair import LayerPair

_BLOCKS = ("kernel_size", "dilation", "padding", "stride")


def _named(layer: str, function: str, *names: str, channels: int | None = None) -> LayerPair:
    """Pair a module with a function whose arguments are the module's attributes ``names``."""

    def arguments(module: Any) -> dict[str, Any]:
        return {name: getattr(module, name) for name in names}

    return LayerPair(
        torch=f"torch.nn.{layer}", flax=f"port.nn.functional.{function}", arguments=arguments, channels=channels
    )


def _collapse_arguments(module: Any) -> dict[str, Any]:
    # lax's stop is exclusive, torch's end inclusive.
    return {
        "start_dimension": module.start_dim,
        "stop_dimension": None if module.end_dim == -1 else module.end_dim + 1,
    }


def _unflatten_arguments(module: Any) -> dict[str, Any]:
    return {"dim": module.dim, "unflattened_size": tuple(module.unflattened_size)}


def _has_names(module: Any) -> str | None:
    sizes = module.unflattened_size
    if isinstance(module.dim, str) or any(isinstance(size, tuple) for size in sizes):
        return "it uses named axes, which JAX lacks; give it the axis as a number and plain sizes"
    return None


PAIRS: tuple[LayerPair, ...] = (
    _named("PixelShuffle", "pixel_shuffle", "upscale_factor", channels=-3),
    _named("PixelUnshuffle", "pixel_unshuffle", "downscale_factor", channels=-3),
    _named("ChannelShuffle", "channel_shuffle", "groups", channels=1),
    # Axis 1 goes last in blocks, (N, C·kH·kW, L), as in images, (N, C, H, W).
    _named("Unfold", "unfold", *_BLOCKS, channels=1),
    _named("Fold", "fold", "output_size", *_BLOCKS, channels=1),
    LayerPair(torch="torch.nn.Flatten", flax="jax.lax.collapse", arguments=_collapse_arguments, notes=("W6",)),
    LayerPair(
        torch="torch.nn.Unflatten",
        flax="port.nn.functional.unflatten",
        arguments=_unflatten_arguments,
        unfit=_has_names,
        notes=("W6",),
    ),
    LayerPair(torch="torch.nn.Identity", flax="jax.nn.identity"),
)
