"""torch.nn.PReLU ⇄ port.nn.PReLU, flax.nnx.PReLU, flax.linen.PReLU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.moves import Reshape
from port.pairs.ops.axes import Each
from port.pairs.pair import LayerPair, ParamPair


def _has_one_slope(module: Any) -> bool:
    return module.num_parameters == 1


_PORTS = LayerPair(
    torch="torch.nn.PReLU",
    flax="port.nn.PReLU",
    params=(ParamPair("weight", "negative_slope"),),
    fits_torch=_has_one_slope,
    fits_flax=_has_one_slope,
    arguments=lambda module: {"num_parameters": module.num_parameters, "init": module.init},
    axes=Each(),
    notes=("G3",),
)

PAIRS = (
    _PORTS,
    replace(
        _PORTS,
        fits_torch=lambda module: not _has_one_slope(module),
        fits_flax=lambda module: not _has_one_slope(module),
        channels=1,
    ),
    *(
        replace(
            _PORTS,
            flax=flaxs,
            params=(ParamPair("weight", "negative_slope", (Reshape((1,), ()),)),),
            fits_flax=LayerPair.fits_flax,
            arguments=LayerPair.arguments,
        )
        for flaxs in ("flax.nnx.PReLU", "flax.linen.PReLU")
    ),
)
