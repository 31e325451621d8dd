"""Padding ⇄ port.nn.functional.pad: `jnp.pad` with torch's order and negative widths, channels last."""

from __future__ import annotations

from typing import Any

from port.pairs.pair import LayerPair


def _padding(layer: str, mode: str, spatial: int) -> LayerPair:
    def arguments(module: Any) -> dict[str, Any]:
        pad = tuple(module.padding)
        return {"pad": pad, "mode": mode} | ({"value": module.value} if mode == "constant" else {})

    return LayerPair(
        torch=f"torch.nn.{layer}{spatial}d",
        flax="port.nn.functional.pad",
        arguments=arguments,
        channels=-spatial - 1,
    )


_MODES = {
    "ConstantPad": "constant",
    "ZeroPad": "constant",
    "ReflectionPad": "reflect",
    "ReplicationPad": "replicate",
    "CircularPad": "circular",
}

PAIRS: tuple[LayerPair, ...] = tuple(
    _padding(layer, mode, spatial) for layer, mode in _MODES.items() for spatial in (1, 2, 3)
)
