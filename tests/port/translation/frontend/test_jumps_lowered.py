"""``continue`` and early ``return`` have the same effect when they are lowered to branches."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from port.translation.frontend.jumps_lowered import jumps_lowered


def left_out(a: int, b: int) -> list[int]:
    found = []
    for k in range(4):
        if k == a:
            continue
        found.append(k)
        if k > b:
            found.append(-k)
            if k % 2:
                continue
            found.append(10 * k)
        else:
            continue
        found.append(100 * k)
    return found


def early(a: int, b: int) -> int:
    c = a + b
    if a > b:
        return c
    if a == b:
        c *= 2
        if c > 2:
            return -c
        c += 1
    return c + 10


def both_ends(a: int, b: int) -> int | None:
    if a > b:
        a += 1
        if a > 2:
            return a
        return b
    return None


def plain(a: int, b: int) -> int:
    for k in range(3):
        a += k * b
    return a


def ended(a: int, b: int) -> int:
    """A loop with a break stays as it is."""
    for k in range(5):
        if k == a:
            continue
        if k > b:
            break
        a += k
    return a


FUNCTIONS: list[Callable[[int, int], Any]] = [left_out, early, both_ends, plain, ended]


def lowered(function: Callable[..., Any]) -> tuple[ast.FunctionDef, Callable[..., Any]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body = jumps_lowered(definition.body)
    made: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), __file__, "exec"), {}, made)
    return definition, made[function.__name__]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_it_does_the_same(function: Callable[[int, int], Any]) -> None:
    _, made = lowered(function)
    for a, b in product(range(-1, 5), repeat=2):
        assert made(a, b) == function(a, b), (a, b)


@pytest.mark.parametrize("function", [left_out, early, both_ends], ids=lambda each: each.__name__)
def test_no_jump_is_left(function: Callable[[int, int], Any]) -> None:
    definition, _ = lowered(function)
    assert not any(isinstance(node, ast.Continue) for node in ast.walk(definition))
    assert [isinstance(node, ast.Return) for node in ast.walk(definition)].count(True) == 1


def test_lines_stay() -> None:
    definition, _ = lowered(early)
    lines = textwrap.dedent(inspect.getsource(early)).splitlines()
    added = [node for node in ast.walk(definition) if isinstance(node, ast.AugAssign)]
    assert [lines[node.lineno - 1].strip() for node in added] == ["c *= 2", "c += 1"]
