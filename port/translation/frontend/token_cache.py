"""The torch twin of `port.nn.TokenCache`, inserted into an original so that its translation has a cache."""

from __future__ import annotations

import torch


class TorchTokenCache(torch.nn.Module):
    """A cache of tokens that is empty at each call; `port.nn.TokenCache` can keep its tokens between calls."""

    def forward(self, tokens: torch.Tensor, position: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Write tokens into an empty cache, and return it: (…, places, features). Tokens past its end are dropped.

        Args:
            tokens: (…, tokens, features).
            position: the position of the first of these tokens, ().
            places: (places,), the positions of the cache; only its length is read.
        """
        *before, count, features = tokens.shape
        room = places.shape[0]
        stand = position + torch.arange(count, device=tokens.device)
        return tokens.new_zeros((*before, room + count, features)).index_copy(-2, stand, tokens)[..., :room, :]
