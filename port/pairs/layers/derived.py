"""Pairs that are derived from others: a wrapper around any layer that has a pair of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from port.pairs.pair import LayerPair

Find = Callable[[Any], list[LayerPair]]


class Derive(Protocol):
    """Makes the pair of a wrapped layer from the pair of the layer inside."""

    def of_torch(self, module: Any, find: Find) -> LayerPair | None:
        """The pair of a torch module, if it is one of these; ``find`` gives the pairs of a module inside."""
        ...

    def of_flax(self, module: Any, find: Find) -> LayerPair | None:
        """The same of a Flax module."""
        ...
