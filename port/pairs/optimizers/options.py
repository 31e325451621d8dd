"""Validation of optimizer options: what torch's constructors check, or fail to check."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Test = Callable[[Any], bool]


@dataclass(frozen=True)
class Takes:
    """The values that an option accepts.

    Attributes:
        holds: whether a value is accepted; a number may be a one-element array of any library.
        words: a description for messages.
    """

    holds: Test
    words: str


def number(within: Callable[[float], bool] = lambda value: True) -> Test:
    """Return a test for finite numbers that satisfy ``within``; a traced number has no value yet, and passes."""

    def holds(value: Any) -> bool:
        if math.prod(getattr(value, "shape", (0,))) == 1:
            try:
                value = value.item()
            except TypeError:  # jax traces it
                return True
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max and within(value)

    return holds


def whole(lowest: int, highest: int) -> Test:
    """Return a test for integers from ``lowest`` to ``highest``."""
    return lambda value: isinstance(value, int) and lowest <= value <= highest


def several(*rules: Test) -> Test:
    """Return a test for tuples or lists with one item for each rule."""

    def holds(value: Any) -> bool:
        if not isinstance(value, tuple | list) or len(value) != len(rules):
            return False
        return all(rule(one) for rule, one in zip(rules, value, strict=True))

    return holds


def or_none(rule: Test) -> Test:
    """Return a test for None or values that satisfy the rule."""
    return lambda value: value is None or rule(value)


NOT_NEGATIVE = number(lambda value: value >= 0)
_BELOW_1 = number(lambda value: 0 <= value < 1)

ANY_NUMBER = Takes(number(), "a number")
AT_LEAST_0 = Takes(NOT_NEGATIVE, "a number of at least 0")
BETAS = Takes(several(_BELOW_1, _BELOW_1), "two numbers from 0 to below 1")
SWITCH = Takes(lambda value: isinstance(value, int) and value in (0, 1), "True or False")
COUNT = Takes(whole(1, 2**31 - 1), "a whole number of at least 1")


def at_least_0(*names: str) -> dict[str, Takes]:
    """Return options that take numbers of at least 0."""
    return dict.fromkeys(names, AT_LEAST_0)


def switches(*names: str) -> dict[str, Takes]:
    """Return options that are on or off."""
    return dict.fromkeys(names, SWITCH)


def like(default: Any) -> Takes:
    """Return what an option takes by default: values of its default's type."""
    match default:
        case bool():
            return SWITCH
        case int() | float():
            return ANY_NUMBER
        case tuple() | list():
            rules = tuple(like(one).holds for one in default)
            return Takes(several(*rules), f"{len(rules)} values like {default!r}")
        case str():
            return Takes(lambda value: isinstance(value, str), "a string")
        case _:
            return Takes(lambda value: True, "anything")
