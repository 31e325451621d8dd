"""The key and value caches of models that generate text."""

from __future__ import annotations

from typing import Any

from port.pairs.pair import LayerPair


def _arguments(module: Any) -> dict[str, Any]:
    return {"window": module.window} if module.window is not None or module.beside_windows else {}


PAIRS = (
    LayerPair(
        torch="port.translation.frontend.token_cache.TorchTokenCache",
        flax="port.nn.TokenCache",
        arguments=_arguments,
    ),
)
