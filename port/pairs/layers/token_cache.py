"""The key-value cache of generating models, in both frameworks."""

from __future__ import annotations

from port.pairs.pair import LayerPair

PAIRS = (LayerPair(torch="port.translation.frontend.token_cache.TorchTokenCache", flax="port.nn.TokenCache"),)
