"""What a proof says, in one word."""

from __future__ import annotations

from port.judging import Status
from port.translation.verify import Proof


def word_of(proof: Proof | None) -> Status:
    """Of a proof; where nothing was compared, nothing can be judged."""
    return Status.CANNOT_JUDGE if proof is None else proof.status
