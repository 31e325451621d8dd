"""A function is exchanged behind its decorators, which stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from port.translation.frontend.decorators import redecorated, undecorated


def counting(calls: list[str], name: str) -> Callable[[Any], Any]:
    def decorator(function: Any) -> Any:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return function(*args, **kwargs)

        return wrapper

    return decorator


def test_each_wrapper_is_called_around_the_new_function() -> None:
    calls: list[str] = []

    @counting(calls, "outer")
    @counting(calls, "inner")
    def twice(x: int, *, more: int = 1) -> int:
        return 2 * x + more

    def thrice(x: int, *, more: int = 1) -> int:
        return 3 * x + more

    assert undecorated(twice)(5) == 11 and not calls
    made = redecorated(twice, thrice)
    assert (made(5), made(5, more=4), calls) == (16, 19, ["outer", "inner"] * 2)
    assert made.__name__ == "twice" and undecorated(made) is thrice
    # What stands in the class is as it was.
    assert twice(5) == 11 and undecorated(undecorated(twice)) is undecorated(twice)


def test_what_no_decorator_wraps_is_the_function_itself() -> None:
    assert undecorated(counting) is counting
    assert redecorated(counting, undecorated) is undecorated


def test_what_a_wrapper_holds_otherwise_is_left_alone() -> None:
    held: list[Any] = []

    def holding(function: Any) -> Any:
        held.append(function)

        @wraps(function)
        def wrapper(x: int) -> Any:
            return held[0](x)

        return wrapper

    @holding
    def twice(x: int) -> int:
        return 2 * x

    assert undecorated(twice) is twice
