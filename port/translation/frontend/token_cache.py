"""The torch twin of `port.nn.TokenCache`: added to an original, so that its translation has caches."""

from __future__ import annotations

import torch


class TorchTokenCache(torch.nn.Module):
    """A key or value cache that is empty at each call, as `port.nn.TokenCache` is until its `hold`.

    Args:
        window: how many tokens a query of the layer sees, itself included; None for all.
        beside_windows: whether other layers of the model have a window. The written source then has ``window=None``
            for this one, so that layers of both kinds can share a class.
    """

    def __init__(self, window: int | None = None, *, beside_windows: bool = False) -> None:
        super().__init__()
        self.window, self.beside_windows = window, beside_windows

    def forward(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        places: torch.Tensor,
        window_positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the layer's keys or values: every place, or with a window the tokens at some positions.

        Args:
            tokens: (…, tokens, features).
            position: of the first of these tokens.
            places: (places,), one for each token that the cache has room for.
            window_positions: (keys,), the positions of the tokens to return. Only a cache with a window reads it.

        Returns:
            (…, places, features), or with a window (…, keys, features). Tokens beyond the last place are left out;
            0 where there is no token.
        """
        *before, count, features = tokens.shape
        if self.window is not None:
            assert window_positions is not None, "a cache with a window is called with window_positions"
            index = window_positions - position
            found = tokens.index_select(-2, index.clamp(0, count - 1))
            return torch.where(((index >= 0) & (index < count)).unsqueeze(-1), found, 0.0)
        room = places.shape[0]
        stand = position + torch.arange(count, device=tokens.device)
        return tokens.new_zeros((*before, room + count, features)).index_copy(-2, stand, tokens)[..., :room, :]
