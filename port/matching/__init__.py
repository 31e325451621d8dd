"""Finds the mapping between two models that were written separately.

It is proposed from kinds, shapes, names and order, decided by activations, and proved by `port.check`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from port.extras import naming_extras

if TYPE_CHECKING:
    from port.matching.matching import match
    from port.matching.result import Candidate, Match, Row

# A result needs no torch.
_HOMES = {
    "Candidate": "port.matching.result",
    "Match": "port.matching.result",
    "Row": "port.matching.result",
    "match": "port.matching.matching",
}

__all__ = ["Candidate", "Match", "Row", "match"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        with naming_extras(f"port.{name}" if name == "match" else f"port.matching.{name}"):
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'port.matching' has no attribute {name!r}")
