"""Conditions that values alone decide."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch

from port.translation.frontend.conditions_held import compared, is_instance, truth
from port.translation.frontend.found import Found
from port.translation.frontend.frame_objects import MISSING


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (Found(0), False),
        (Found(0.5), True),
        (Found(None), False),
        (Found("a"), True),
        (Found(), None),
        (Found(items=()), False),
        (Found(torch.ones(1)), None),
    ],
)
def test_a_tensors_truth_is_not_asked(found: Found, known: bool | None) -> None:
    assert truth(found) is known


@pytest.mark.parametrize(
    ("kind", "left", "right", "given"),
    [
        (ast.Is(), None, None, True),
        (ast.Is(), torch.ones(1), None, False),
        (ast.IsNot(), torch.ones(1), None, True),
        (ast.Is(), 3, 3, MISSING),
        (ast.Eq(), 3, 3.0, True),
        (ast.Lt(), 5, 3, False),
        (ast.Lt(), 5, "3", MISSING),
        (ast.Eq(), torch.ones(1), 1, MISSING),
        (ast.Eq(), MISSING, 1, MISSING),
        (ast.In(), 3, 3, MISSING),
    ],
)
def test_comparisons(kind: Any, left: Any, right: Any, given: Any) -> None:
    assert compared(kind, left, right) is given


def test_kinds() -> None:
    assert is_instance(Found(3), Found(int)) is True
    assert is_instance(Found(3), Found(items=(Found(str), Found(torch.Tensor)))) is False
    assert is_instance(Found(), Found(int)) is is_instance(Found(3), Found()) is MISSING
