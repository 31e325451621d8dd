"""Conditions that values alone decide."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch

from port.translation.frontend.origins.condition_values import compared, is_instance, truth
from port.translation.frontend.origins.frame_objects import MISSING
from port.translation.frontend.origins.resolved import Resolved


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (Resolved(0), False),
        (Resolved(0.5), True),
        (Resolved(None), False),
        (Resolved("a"), True),
        (Resolved(), None),
        (Resolved(items=()), False),
        (Resolved(torch.ones(1)), None),
    ],
)
def test_a_tensors_truth_is_not_asked(found: Resolved, known: bool | None) -> None:
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
    assert is_instance(Resolved(3), Resolved(int)) is True
    assert is_instance(Resolved(3), Resolved(items=(Resolved(str), Resolved(torch.Tensor)))) is False
    assert is_instance(Resolved(), Resolved(int)) is is_instance(Resolved(3), Resolved()) is MISSING
