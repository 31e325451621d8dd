"""Whole numbers of a configuration, one or a list, divided by what divides them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd, isqrt
from typing import Any


def numbers(value: Any) -> list[int]:
    """The whole numbers of a field; none where it is something else."""
    parts = list(value) if isinstance(value, list | tuple) else [value]
    return parts if parts and all(isinstance(one, int) and not isinstance(one, bool) for one in parts) else []


def divided(value: Any, by: int) -> Any:
    """A number, or each of a list, over another that divides it."""
    return type(value)(one // by for one in value) if isinstance(value, list | tuple) else value // by


def divided_at_most(value: Any, most: int, least: int) -> Any:
    """A number, or each of a list, over the largest that divides it, is not above ``most`` and leaves enough.

    Args:
        value: of a field.
        most: by which it is divided.
        least: that is left, unless it is less itself.
    """
    own = numbers(value)
    whole, fewest = gcd(*own), min(own)
    by = max(by for by in range(1, most + 1) if (whole % by == 0 and fewest // by >= min(fewest, least)) or by == 1)
    return divided(value, by)


def divisors(fields: Mapping[Any, Any], fits: Callable[[int], bool]) -> list[int]:
    """What divides all numbers of some fields and fits, the largest first; 1 where nothing does.

    Args:
        fields: with numbers, or lists of them.
        fits: whether to divide by it.
    """
    whole = gcd(*(one for value in fields.values() for one in numbers(value)))
    return [by for by in range(whole, 0, -1) if whole % by == 0 and fits(by)] or [1]


def is_square(number: int) -> bool:
    """Whether its root is whole."""
    return isqrt(number) ** 2 == number
