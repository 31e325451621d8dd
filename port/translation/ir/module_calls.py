"""Marks where a run enters and leaves a module's ``forward``, or another of its methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from port.translation.ir.number import Numbers
from port.translation.ir.source_location import SourceLocation

FORWARD = "forward"


def key_of(path: str, method: str = FORWARD) -> str:
    """Return the key of a method: the module's path for ``forward``, ``encoder.attend()`` for another method."""
    return path if method == FORWARD else f"{path}.{method}()" if path else f"{method}()"


@dataclass(frozen=True)
class ScopeEnter:
    """The start of a call of a module's ``forward`` or another method; arguments are keyed by parameter name."""

    path: str
    call: int
    module: Any
    arguments: dict[str, Any]
    place: SourceLocation | None = None
    numbers: Numbers = field(default_factory=dict, compare=False, repr=False)
    method: str = FORWARD

    @property
    def key(self) -> str:
        """`key_of` the method that is called."""
        return key_of(self.path, self.method)


@dataclass(frozen=True)
class ScopeExit:
    """The end of the call, with its results."""

    path: str
    call: int
    results: Any
    method: str = FORWARD

    @property
    def key(self) -> str:
        """`key_of` the method that ends."""
        return key_of(self.path, self.method)

    @property
    def is_roots(self) -> bool:
        """Whether this is the end of the root's ``forward``."""
        return not self.key
