"""The torch twin of `port.nn.KVCache`, which an original is given so that its translation has a cache."""

from __future__ import annotations

import torch


class KVCache(torch.nn.Module):
    """Room for so many tokens' keys and values, empty at each call: as port's is, which is told to keep them.

    Args:
        length: how many tokens there is room for.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def forward(
        self, key: torch.Tensor, value: torch.Tensor, position: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of all places, (batch, heads, length, features).

        Args:
            key: (batch, heads, tokens, features of a key).
            value: (batch, heads, tokens, features of a value).
            position: of the first of these tokens.
        """
        return self._with(key, position), self._with(value, position)

    def _with(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        batch, heads, count, features = tokens.shape
        places = position + torch.arange(count, device=tokens.device)
        return tokens.new_zeros((batch, heads, self.length, features)).index_copy(2, places, tokens)
