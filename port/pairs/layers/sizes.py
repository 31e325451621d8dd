"""Shared by the families of spatial layers."""

from __future__ import annotations

from typing import Any


def for_each_axis(value: Any, spatial: int) -> tuple[Any, ...]:
    """Repeat a single number (or 1-tuple) for each spatial axis; longer tuples are unchanged."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    return values * spatial if len(values) == 1 else values
