"""What the families of spatial layers share."""

from __future__ import annotations

from typing import Any


def for_each_axis(value: Any, spatial: int) -> tuple[Any, ...]:
    """A number, or one in a tuple of its own, as that number for each spatial axis; more are left as they are."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    return given * spatial if len(given) == 1 else given
