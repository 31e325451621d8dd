"""The pairs that users have made known: those of each kind, the last one first."""

from __future__ import annotations

from typing import Any, TypeVar

Kind = TypeVar("Kind")

_pairs: list[Any] = []


def add(pair: Any) -> None:
    """Put a pair before all others; one that is there already stays where it is."""
    if pair not in _pairs:
        _pairs.insert(0, pair)


def registered(kind: type[Kind]) -> tuple[Kind, ...]:
    """The registered pairs of a kind."""
    return tuple(pair for pair in _pairs if isinstance(pair, kind))
