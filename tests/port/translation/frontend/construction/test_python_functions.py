"""Python's functions keep origins while a model is constructed, and are unchanged otherwise."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from math import sqrt
from types import ModuleType
from typing import Any

import pytest
import torch

from port.translation.frontend.construction.python_functions import keeping_origins
from port.translation.frontend.construction.sizes import Sizes
from port.translation.ir.origin import ConstructorArgument, said
from port.translation.ir.origin_numbers import origin_of, with_origin

DIM = with_origin(6, ConstructorArgument(0, "dim"))
RATIO = with_origin(1.5, ConstructorArgument(0, "ratio"))
NAMES = {"dim": DIM, "ratio": RATIO, "math": math, "sqrt": sqrt}


@pytest.fixture
def module() -> Iterator[tuple[ModuleType, list[int]]]:
    """A user's module, and the lengths of the ranges in it."""
    made, ranges = ModuleType("users"), list[int]()
    vars(made).update(NAMES)
    with keeping_origins([made], ranges.append):
        yield made, ranges


@pytest.mark.parametrize(
    ("expression", "origin"),
    [
        ("int(dim * ratio)", "int(dim * ratio)"),
        ("int(ratio)", "int(ratio)"),
        ("float(dim)", "float(dim)"),
        ("math.sqrt(dim)", "math.sqrt(dim)"),
        ("sqrt(dim)", "math.sqrt(dim)"),
        ("1 / math.sqrt(dim)", "1 / math.sqrt(dim)"),
        ("max(8, dim // 2)", "max(8, dim // 2)"),
        ("min(dim, 2, 9)", "min(dim, 2, 9)"),
        ("round(dim * ratio)", "round(dim * ratio)"),
        ("int('3')", None),
        ("int('ff', 16)", None),
        ("float('2')", None),
        ("math.sqrt(4)", None),
        ("max(3, 4)", None),
        ("max([dim, 4])", "max(dim, 4)"),
        ("max(iter([4, 5]))", None),
        ("max([dim])", "dim"),
        ("max(dim, 4, key=lambda number: -number)", None),
    ],
)
def test_what_is_remembered(module: Any, expression: str, origin: str | None) -> None:
    made = eval(expression, vars(module[0]))
    found = origin_of(made)
    assert (None if found is None else said(found)) == origin
    own = eval(expression, {**NAMES, "dim": 6, "ratio": 1.5})
    assert made == own
    assert isinstance(made, type(own))


def test_classes_are_pythons_own(module: Any) -> None:
    checks = (
        "isinstance(3, int)",
        "isinstance(dim, int)",
        "not isinstance(ratio, int)",
        "isinstance(ratio, (int, float))",
        "issubclass(bool, int)",
        "type(3) == int",
        "int == type(3)",
        "{int: 1}[type(3)]",
        "int.from_bytes(b'a', 'big') == 97",
        "float.fromhex('0x1p1') == 2",
    )
    for check in checks:
        assert eval(check, vars(module[0])), check


def test_ranges_are_noted(module: Any) -> None:
    made, ranges = module
    assert eval("[k for k in range(dim)]", vars(made)) == list(range(6))
    assert eval("list(range(2)), list(range(1, dim, 2))", vars(made)) == ([0, 1], [1, 3, 5])
    assert [said(origin_of(count)) for count in ranges] == ["dim"]  # type: ignore[arg-type]


def test_all_is_as_before_afterwards() -> None:
    made = ModuleType("users")
    own = {"sqrt": sqrt, "range": "its own"}
    vars(made).update(own)
    before, whole = math.sqrt, dict(vars(made))
    with pytest.raises(KeyError), keeping_origins([made], [].append):
        assert math.sqrt is not before
        assert vars(made)["range"] == "its own"
        raise KeyError
    assert math.sqrt is before
    assert vars(made) == whole
    assert builtins.int is int and builtins.max is max


def test_the_lengths_of_an_empty_tensor(module: tuple[ModuleType, list[int]]) -> None:
    vars(module[0])["torch"] = torch
    with keeping_origins([module[0]], module[1].append), Sizes() as sizes:
        made = eval("torch.Tensor(2, dim)", vars(module[0]))
        other = eval("torch.Tensor([2, 3])", vars(module[0]))
        kinds = eval("isinstance(torch.ones(1), torch.Tensor), torch.nn.Linear", vars(module[0]))
    found = sizes.of(made)
    assert found is not None
    assert [int(found[0]), said(origin_of(found[1]) or ConstructorArgument(0, ""))] == [2, "dim"]
    assert other.tolist() == [2, 3]
    assert kinds == (True, torch.nn.Linear)
    assert vars(module[0])["torch"] is torch
