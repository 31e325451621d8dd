"""Language models that are given caches: whether what they say of a token depends on those before it alone."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from port.errors import UsageError

TOKENS = 19
"""Of a text that is tried."""


class WithCaches(Protocol):
    """A torch module that is called at a position, with so many places in its caches.

    Attributes:
        vocabulary: how many tokens there are.
        window: of how many tokens an attention layer sees the last at most; 0 if all see all.
    """

    vocabulary: int
    window: int

    def without_cache(self, input_ids: torch.Tensor) -> torch.Tensor:
        """What it says of all tokens as it was without caches: logits (batch, tokens, vocabulary)."""


def check_causal(module: Any, name: str) -> None:
    """See that a token changes nothing of what is said of those before it.

    Args:
        module: `WithCaches`, with numbers, in evaluation.
        name: of the original, for the message.

    Raises:
        UsageError: it does.
    """
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, module.vocabulary, (2, TOKENS), generator=generator)
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % module.vocabulary
    with torch.no_grad():
        before, after = module.without_cache(ids), module.without_cache(other)
    changed = (before[:, :-1] - after[:, :-1]).abs().amax(dim=(0, 2))
    # Rounding alone changes nothing: the same numbers are added in the same order.
    if bool((changed > 1e-4 * before.abs().max()).any()):
        place = int((changed > 1e-4 * before.abs().max()).nonzero()[0])
        raise UsageError(
            f"{name} is not causal: what it says of token {place} of {TOKENS} changes with the last token. "
            "Generation with caches is of models in which a token sees itself and those before it: translate it "
            "without --generate"
        )
