"""LocalResponseNorm and CrossMapLRN2d ⇄ port.nn.functional's, over the last axis."""

from __future__ import annotations

from typing import Any

from port.pairs.pair import LayerPair


def _arguments(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in ("size", "alpha", "beta", "k")}


def _has_no_gradient(module: Any) -> str | None:
    return None if module.size > 1 else "torch has no gradient for a window of one channel; use LocalResponseNorm"


PAIRS: tuple[LayerPair, ...] = (
    LayerPair(
        torch="torch.nn.LocalResponseNorm",
        flax="port.nn.functional.local_response_norm",
        arguments=_arguments,
        channels=1,
    ),
    LayerPair(
        torch="torch.nn.CrossMapLRN2d",
        flax="port.nn.functional.cross_map_lrn",
        arguments=_arguments,
        channels=1,
        unfit=_has_no_gradient,
    ),
)
