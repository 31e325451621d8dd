"""Validates the user's options and converts them to Python numbers."""

from __future__ import annotations

import math
from typing import Any

from port.errors import UsageError


def number(name: str, passed: Any) -> float:
    """Convert to a number of 0 or more.

    Args:
        name: the option's name, for the error message.
        passed: a number, or a scalar of numpy, torch or jax.

    Raises:
        UsageError: ``passed`` is anything else.
    """
    value = _plain(passed)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name} must be a number of 0 or more; got {passed!r}")
    return value


def order(name: str, passed: Any) -> float:
    """Convert to the order of a norm: any number, infinity also as ``"inf"``, as in torch.

    Raises:
        UsageError: ``passed`` is anything else.
    """
    value = _plain(passed)
    try:
        value = value if isinstance(value, int | float) and not isinstance(value, bool) else float(str(value))
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise UsageError(f'{name} must be the order of a norm: 2.0, 1.0 or "inf", for instance; got {passed!r}')
    return float(value)


def whole(name: str, passed: Any, *, least: int) -> int:
    """Convert to a whole number.

    Args:
        name: the option's name, for the error message.
        passed: an integer, or a scalar of numpy, torch or jax.
        least: the smallest value allowed.

    Raises:
        UsageError: ``passed`` is anything else.
    """
    value = _plain(passed)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number, {least} or more; got {passed!r}")
    return value


def flag(name: str, passed: Any) -> bool:
    """Check for True or False.

    Raises:
        UsageError: ``passed`` is anything else.
    """
    value = _plain(passed)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False; got {passed!r}")
    return value


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "shape", None) == () else value
