"""Which values an option of an optimizer takes, as its pair says it: what torch's constructors check, or forget to."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Test = Callable[[Any], bool]


@dataclass(frozen=True)
class Takes:
    """What an option takes.

    Attributes:
        holds: whether it takes a value; a number may be an array of one, of any library.
        words: what it takes, for a message.
    """

    holds: Test
    words: str


def number(within: Callable[[float], bool] = lambda value: True) -> Test:
    """Whether it is a finite number, and within; one that jax traces has no value yet, and is taken."""

    def holds(value: Any) -> bool:
        if math.prod(getattr(value, "shape", (0,))) == 1:
            try:
                value = value.item()
            except TypeError:  # jax traces it
                return True
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max and within(value)

    return holds


def whole(lowest: int, highest: int) -> Test:
    """Whether it is a whole number from the lowest to the highest."""
    return lambda value: isinstance(value, int) and lowest <= value <= highest


def several(*rules: Test) -> Test:
    """Whether it is a tuple or a list of just these."""

    def holds(value: Any) -> bool:
        if not isinstance(value, tuple | list) or len(value) != len(rules):
            return False
        return all(rule(one) for rule, one in zip(rules, value, strict=True))

    return holds


def or_none(rule: Test) -> Test:
    """Whether it is None, or as the rule says."""
    return lambda value: value is None or rule(value)


NOT_NEGATIVE = number(lambda value: value >= 0)
_BELOW_1 = number(lambda value: 0 <= value < 1)

ANY_NUMBER = Takes(number(), "a number")
AT_LEAST_0 = Takes(NOT_NEGATIVE, "a number of at least 0")
BETAS = Takes(several(_BELOW_1, _BELOW_1), "two numbers from 0 to below 1")
SWITCH = Takes(lambda value: isinstance(value, int) and value in (0, 1), "True or False")
COUNT = Takes(whole(1, 2**31 - 1), "a whole number of at least 1")


def at_least_0(*names: str) -> dict[str, Takes]:
    """Options that are numbers of at least 0."""
    return dict.fromkeys(names, AT_LEAST_0)


def switches(*names: str) -> dict[str, Takes]:
    """Options that are on or off."""
    return dict.fromkeys(names, SWITCH)


def like(default: Any) -> Takes:
    """What an option takes of which nothing more is said: values of its default's kind."""
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
