"""Where a run enters and leaves a module's ``forward``, or another method that the module calls of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from port.translation.ir.number import Numbers
from port.translation.ir.source_location import SourceLocation

FORWARD = "forward"


def key_of(path: str, method: str = FORWARD) -> str:
    """What stands for a module's ``forward``: its path; and for another method of it: ``encoder.attend()``."""
    return path if method == FORWARD else f"{path}.{method}()" if path else f"{method}()"


@dataclass(frozen=True)
class ScopeEnter:
    """A module's ``forward``, or another method of it, begins: what it is given, by the names of its parameters."""

    path: str
    call: int
    module: Any
    arguments: dict[str, Any]
    place: SourceLocation | None = None
    numbers: Numbers = field(default_factory=dict, compare=False, repr=False)
    method: str = FORWARD

    @property
    def key(self) -> str:
        """What is called: `key_of` its path and method."""
        return key_of(self.path, self.method)


@dataclass(frozen=True)
class ScopeExit:
    """The same method ends: what it returns."""

    path: str
    call: int
    results: Any
    method: str = FORWARD

    @property
    def key(self) -> str:
        """What ends: `key_of` its path and method."""
        return key_of(self.path, self.method)

    @property
    def is_roots(self) -> bool:
        """Whether the whole run ends here."""
        return not self.key
