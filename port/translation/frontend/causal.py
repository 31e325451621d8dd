"""Check that a language model is causal, before it gets caches."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from port.errors import UsageError

TOKENS = 19
"""Tokens of the text that is tried."""


class CachedOriginal(Protocol):
    """A torch module with caches, called with tokens, their position and the caches' places.

    Attributes:
        vocabulary: how many different tokens there are.
        window: how many tokens a layer with a sliding window sees; 0 if there is none.
    """

    vocabulary: int
    window: int

    def without_cache(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the original's logits without caches, (batch, tokens, vocabulary)."""


def check_causal(module: Any, name: str) -> None:
    """Check that a token does not change the logits of earlier ones.

    Args:
        module: `CachedOriginal`, with weights, in evaluation mode.
        name: of the original, for the message.

    Raises:
        UsageError: the logits of an earlier token change; says at which position.
    """
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, module.vocabulary, (2, TOKENS), generator=generator)
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % module.vocabulary
    with torch.no_grad():
        before, after = module.without_cache(ids), module.without_cache(other)
    changed = (before[:, :-1] - after[:, :-1]).abs().amax(dim=(0, 2))
    # Not a matter of rounding: equal numbers are added in the same order.
    if bool((changed > 1e-4 * before.abs().max()).any()):
        place = int((changed > 1e-4 * before.abs().max()).nonzero()[0])
        raise UsageError(
            f"{name} is not causal: the logits of token {place} of {TOKENS} change with the last token. Generation "
            "with caches needs a model in which a token sees only itself and earlier ones: translate it without "
            "--generate"
        )
