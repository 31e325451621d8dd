"""Upsample ⇄ port.nn.functional.interpolate; `jax.image.resize` uses other coordinates."""

from __future__ import annotations

from typing import Any

from port.pairs.pair import LayerPair


def _upsample(layer: str) -> LayerPair:
    def arguments(module: Any) -> dict[str, Any]:
        names = ("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")
        options = {name: getattr(module, name) for name in names}
        return {name: value for name, value in options.items() if value is not None}

    return LayerPair(
        torch=f"torch.nn.{layer}",
        flax="port.nn.functional.interpolate",
        arguments=arguments,
        channels=1,
        notes=("W21",),
    )


PAIRS: tuple[LayerPair, ...] = tuple(
    _upsample(layer) for layer in ("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d")
)
