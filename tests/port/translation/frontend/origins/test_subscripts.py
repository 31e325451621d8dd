"""The parts of a subscript are matched with the arguments of its operators."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from port.translation.frontend.origins.resolved import Resolved
from port.translation.frontend.origins.subscripts import of_subscript
from port.translation.ir.origin import AttributeOf, DefaultOf

NAMES = {"n": 3, "m": 5, "same": 3}


def _resolve(node: ast.expr) -> Resolved:
    match node:
        case ast.Constant(value):
            return Resolved(value)
        case ast.Name(name) if name in NAMES:
            return Resolved(NAMES[name], AttributeOf("", name))
    return Resolved()


def _of(text: str, operator: str, rank: int, **arguments: Any) -> dict[str, Any]:
    key = ast.parse(f"x[{text}]", mode="eval").body
    assert isinstance(key, ast.Subscript)
    tensor = SimpleNamespace(meta={"val": torch.zeros((2,) * rank)})
    found = of_subscript(key.slice, operator, {"self": tensor, **arguments}, _resolve)
    return {name: getattr(each.origin, "attribute", each.origin) for name, each in found.items()}


@pytest.mark.parametrize(
    ("text", "rank", "dim", "index", "given"),
    [
        ("n", 3, 0, 3, {"index": "n"}),
        (":, n", 3, 1, 3, {"index": "n"}),
        ("n, m", 3, 0, 3, {"index": "n"}),
        ("n, m", 2, 0, 5, {"index": "m"}),
        ("n, same", 3, 0, 3, {}),
        ("..., n", 4, 3, 3, {"index": "n"}),
        ("..., n, :, m", 4, 1, 3, {"index": "n"}),
        ("..., n, :, m", 3, 2, 5, {"index": "m"}),
        ("..., None, n", 5, 4, 3, {"index": "n"}),
        ("None, n", 4, 1, 3, {"index": "n"}),
        (":, n", 3, 0, 3, {}),
        ("unknown, n", 3, 0, 7, {}),
        ("*n, m", 3, 0, 5, {}),
    ],
)
def test_a_number_selects(text: str, rank: int, dim: int, index: int, given: dict[str, str]) -> None:
    assert _of(text, "select", rank, dim=dim, index=index) == given


def test_a_slice_has_its_ends() -> None:
    assert _of(":, n:m", "slice", 3, dim=1) == {"start": "n", "end": "m", "step": DefaultOf("slice", "step")}
    given = {"start": DefaultOf("slice", "start"), "end": "m", "step": "n"}
    assert _of("..., :m:n", "slice", 3, dim=2) == _of("0, :m:n", "slice", 2, dim=0) == given
    assert _of("n:m", "slice", 3, dim=1) == _of("n:m", "unsqueeze", 3, dim=0) == {}
