"""The options that a person gives, as Python's own numbers: what is none, or cannot be right, is refused."""

from __future__ import annotations

import math
from typing import Any

from port.errors import UsageError


def number(name: str, given: Any) -> float:
    """A number of 0 or more.

    Args:
        name: the option's.
        given: a number, or a scalar of numpy, torch or jax.

    Raises:
        UsageError: anything else.
    """
    value = _plain(given)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name} is a number of 0 or more; got {given!r}")
    return value


def order(name: str, given: Any) -> float:
    """The order of a norm: any number, infinity also as ``"inf"``, as torch takes it.

    Raises:
        UsageError: anything else.
    """
    value = _plain(given)
    try:
        value = value if isinstance(value, int | float) and not isinstance(value, bool) else float(str(value))
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise UsageError(f'{name} is the order of a norm: 2.0, 1.0 or "inf", for instance; got {given!r}')
    return float(value)


def whole(name: str, given: Any, *, least: int) -> int:
    """A whole number.

    Args:
        name: the option's.
        given: an integer, or a scalar of numpy, torch or jax.
        least: the least that it may be.

    Raises:
        UsageError: anything else.
    """
    value = _plain(given)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} is a whole number, {least} or more; got {given!r}")
    return value


def flag(name: str, given: Any) -> bool:
    """True or False.

    Raises:
        UsageError: anything else.
    """
    value = _plain(given)
    if not isinstance(value, bool):
        raise UsageError(f"{name} is True or False; got {given!r}")
    return value


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "shape", None) == () else value
