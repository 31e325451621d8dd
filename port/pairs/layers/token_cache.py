"""What a model that generates is given in both frameworks: room for what attention makes of tokens."""

from __future__ import annotations

from port.pairs.pair import LayerPair

PAIRS = (LayerPair(torch="port.translation.frontend.token_cache.TorchTokenCache", flax="port.nn.TokenCache"),)
