"""Names of both sides that were found to correspond."""

from __future__ import annotations

from dataclasses import dataclass

from port.moves import Move


@dataclass(frozen=True)
class Found:
    """Names of both sides that correspond, and the moves between them."""

    torch: tuple[str, ...]
    flax: tuple[str, ...]
    moves: tuple[Move, ...] = ()
    collection: str = "params"
    optional: bool = False
