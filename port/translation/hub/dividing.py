"""Divide a configuration's integers, or lists of them, by common divisors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd, isqrt
from typing import Any


def numbers(value: Any) -> list[int]:
    """Return the integers of a field; empty if it holds something else."""
    parts = list(value) if isinstance(value, list | tuple) else [value]
    return parts if parts and all(isinstance(one, int) and not isinstance(one, bool) for one in parts) else []


def divided(value: Any, by: int) -> Any:
    """Divide a number, or each number of a list."""
    return type(value)(one // by for one in value) if isinstance(value, list | tuple) else value // by


def divided_at_most(value: Any, most: int, least: int) -> Any:
    """Divide a number, or each number of a list, by its largest divisor up to ``most`` that leaves at least ``least``.

    Args:
        value: the field's value.
        most: the largest divisor.
        least: the smallest result, unless the value is smaller.
    """
    own = numbers(value)
    whole, fewest = gcd(*own), min(own)
    by = max(by for by in range(1, most + 1) if (whole % by == 0 and fewest // by >= min(fewest, least)) or by == 1)
    return divided(value, by)


def divisors(fields: Mapping[Any, Any], fits: Callable[[int], bool]) -> list[int]:
    """Return the common divisors of all numbers of some fields that fit, the largest first; 1 if none does.

    Args:
        fields: fields with numbers, or lists of numbers.
        fits: whether a divisor may be used.
    """
    whole = gcd(*(one for value in fields.values() for one in numbers(value)))
    return [by for by in range(whole, 0, -1) if whole % by == 0 and fits(by)] or [1]


def is_square(number: int) -> bool:
    """Whether a number is a perfect square."""
    return isqrt(number) ** 2 == number
