"""Validates the user's options and converts them to Python numbers."""

from __future__ import annotations

import math
from typing import Any

from port.errors import UsageError


def number(name: str, given: Any) -> float:
    """Convert to a number of 0 or more.

    Args:
        name: the option's name, for the error message.
        given: a number, or a scalar of numpy, torch or jax.

    Raises:
        UsageError: ``given`` is anything else.
    """
    value = _plain(given)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name} must be a number of 0 or more; got {given!r}")
    return value


def order(name: str, given: Any) -> float:
    """Convert to the order of a norm: any number, infinity also as ``"inf"``, as in torch.

    Raises:
        UsageError: ``given`` is anything else.
    """
    value = _plain(given)
    try:
        value = value if isinstance(value, int | float) and not isinstance(value, bool) else float(str(value))
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise UsageError(f'{name} must be the order of a norm: 2.0, 1.0 or "inf", for instance; got {given!r}')
    return float(value)


def whole(name: str, given: Any, *, least: int) -> int:
    """Convert to a whole number.

    Args:
        name: the option's name, for the error message.
        given: an integer, or a scalar of numpy, torch or jax.
        least: the smallest value allowed.

    Raises:
        UsageError: ``given`` is anything else.
    """
    value = _plain(given)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number, {least} or more; got {given!r}")
    return value


def flag(name: str, given: Any) -> bool:
    """Check for True or False.

    Raises:
        UsageError: ``given`` is anything else.
    """
    value = _plain(given)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False; got {given!r}")
    return value


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "shape", None) == () else value
