"""Pairs of wrappers, derived from the pair of the wrapped layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from port.pairs.pair import LayerPair

Find = Callable[[Any], list[LayerPair]]


class Derive(Protocol):
    """Derives the pair of a wrapper from the pair of the wrapped layer."""

    def of_torch(self, module: Any, find: Find) -> LayerPair | None:
        """Return the pair of a torch module if it is such a wrapper; ``find`` returns the pairs of an inner module."""
        ...

    def of_flax(self, module: Any, find: Find) -> LayerPair | None:
        """Return the pair of a Flax module if it is such a wrapper."""
        ...
