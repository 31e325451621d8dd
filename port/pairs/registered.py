"""Pairs registered by users, latest first."""

from __future__ import annotations

from typing import Any, TypeVar

Kind = TypeVar("Kind")

_pairs: list[Any] = []


def add(pair: Any) -> None:
    """Register a pair before all others; an already registered pair keeps its place."""
    if pair not in _pairs:
        _pairs.insert(0, pair)


def registered(kind: type[Kind]) -> tuple[Kind, ...]:
    """Return the registered pairs of a kind."""
    return tuple(pair for pair in _pairs if isinstance(pair, kind))
