"""Check that a language model is causal, before it is translated with caches."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from port.errors import UsageError

TOKENS = 19
"""Length of the random text that the check runs on."""


class WithCaches(Protocol):
    """A torch language model with caches, called at a position.

    Attributes:
        vocabulary: the number of distinct tokens.
        window: the longest sliding window of an attention layer, in tokens; 0 if every layer sees all tokens.
    """

    vocabulary: int
    window: int

    def without_cache(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of the model without caches, (batch, tokens, vocabulary), for ids (batch, tokens)."""


def check_causal(module: Any, name: str) -> None:
    """Check that changing a token does not change the logits of earlier tokens.

    Args:
        module: a `WithCaches` with weights, in evaluation mode.
        name: the original's name, for the message.

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
    # Rounding adds no difference here: both runs add the same numbers in the same order.
    if bool((changed > 1e-4 * before.abs().max()).any()):
        place = int((changed > 1e-4 * before.abs().max()).nonzero()[0])
        raise UsageError(
            f"{name} is not causal: what it says of token {place} of {TOKENS} changes with the last token. "
            "Generation with caches is of models in which a token sees itself and those before it: translate it "
            "without --generate"
        )
