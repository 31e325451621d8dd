"""What a model that generates is given in both frameworks: room for the keys and values of tokens."""

from __future__ import annotations

from typing import Any

from port.pairs.pair import LayerPair


def _arguments(module: Any) -> dict[str, Any]:
    return {"length": module.length}


PAIRS = (
    LayerPair(
        torch="port.translation.frontend.kv_cache.KVCache",
        flax="port.nn.KVCache",
        arguments=_arguments,
    ),
)
