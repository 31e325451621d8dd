"""What a proof says, in one word."""

from __future__ import annotations

from typing import Literal

from port.translation.proof import Proof

Word = Literal["agree", "differ", "cannot be judged"]


def word_of(proof: Proof | None) -> Word:
    """``agree``, ``differ``, or ``cannot be judged`` where nothing was compared."""
    if proof is None:
        return "cannot be judged"
    return "agree" if proof.agrees else "differ"
