"""The torch twin of `port.nn.TokenCache`, which an original is given so that its translation has a cache."""

from __future__ import annotations

import torch


class TorchTokenCache(torch.nn.Module):
    """Room for tokens, empty at each call: as port's is, which is told to keep them."""

    def forward(self, tokens: torch.Tensor, position: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """All places, (…, places, features). Tokens that there is no room for are left out.

        Args:
            tokens: (…, tokens, features).
            position: of the first of these tokens.
            places: (places,), one for each token that there is room for.
        """
        *before, count, features = tokens.shape
        room = places.shape[0]
        stand = position + torch.arange(count, device=tokens.device)
        return tokens.new_zeros((*before, room + count, features)).index_copy(-2, stand, tokens)[..., :room, :]
