"""Dropout ⇄ flax.nnx.Dropout, with ``broadcast_dims`` where whole channels drop; alpha dropout ⇄ port.nn.

In training the masks are JAX's; with `port.random.shared_dropout` torch draws the same ones.
"""

from __future__ import annotations

from typing import Any

from port.pairs.ops.axes import Each
from port.pairs.pair import LayerPair


def _rate(module: Any) -> dict[str, Any]:
    return {"rate": module.p}


def _channels(spatial: int) -> LayerPair:
    shared = tuple(range(-spatial - 1, -1))  # the spatial axes of (N, *spatial, C)
    return LayerPair(
        torch=f"torch.nn.Dropout{spatial}d",
        flax="flax.nnx.Dropout",
        fits_flax=lambda module: tuple(module.broadcast_dims) == shared,
        arguments=lambda module: _rate(module) | {"broadcast_dims": shared},
        channels=-spatial - 1,
        notes=("W25", "W26"),
    )


PAIRS: tuple[LayerPair, ...] = (
    LayerPair(
        torch="torch.nn.Dropout",
        flax="flax.nnx.Dropout",
        fits_flax=lambda module: not module.broadcast_dims,
        arguments=_rate,
        axes=Each(),
        notes=("W25",),
    ),
    *(_channels(spatial) for spatial in (1, 2, 3)),
    LayerPair(torch="torch.nn.AlphaDropout", flax="port.nn.AlphaDropout", arguments=_rate, axes=Each(), notes=("W25",)),
    LayerPair(
        torch="torch.nn.FeatureAlphaDropout",
        flax="port.nn.FeatureAlphaDropout",
        arguments=_rate,
        channels=1,
        notes=("W25", "W26"),
    ),
)
