"""torch's lazy layers, which become plain layers when run, and have no shapes before."""

from __future__ import annotations

from typing import Any

from port.pairs.pair import LayerPair

NAMES = (
    "Linear",
    *(f"{kind}{spatial}d" for kind in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm") for spatial in (1, 2, 3)),
)


def _not_run_yet(module: Any) -> str:
    return "a lazy layer has no shapes until it is run: call the torch model on one batch first"


def _no_flax_layer(module: Any) -> bool:
    return False


PAIRS = tuple(
    LayerPair(torch=f"torch.nn.Lazy{name}", flax="flax.nnx.Module", fits_flax=_no_flax_layer, unfit=_not_run_yet)
    for name in NAMES
)
