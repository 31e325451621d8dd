"""The expressions of a call are matched with the arguments of an operator."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch

from port.translation.frontend.origins.executing import Executing, ProgramPoint
from port.translation.frontend.origins.operator_arguments import operator_arguments
from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.origin import AttributeOf, DefaultOf

aten = torch.ops.aten
NAMES = {"n": Resolved(3, AttributeOf("", "n")), "m": Resolved(5, AttributeOf("", "m")), "torch": Resolved(torch)}
NAMES |= {"x": Resolved(torch.zeros(2)), "other": Resolved(object())}


def _resolve(node: ast.expr, point: ProgramPoint) -> Resolved:
    match node:
        case ast.Constant(value):
            return Resolved(value)
        case ast.Name(name):
            return NAMES.get(name, Resolved())
        case ast.Tuple(items):
            return Resolved(items=tuple(_resolve(item, point) for item in items))
    return Resolved()


def _of(text: str, target: Any, **arguments: Any) -> dict[str, Any]:
    here: Executing = None  # type: ignore[assignment]
    statement = ast.parse(text).body[0]
    node = statement.value if isinstance(statement, ast.Expr) else statement
    found = operator_arguments(ProgramPoint(here, node), target, arguments, _resolve)
    return {name: _said(each) for name, each in found.items() if _said(each) is not None}


def _said(found: Resolved) -> Any:
    if found.items is not None:
        return [_said(item) for item in found.items]
    match found.origin:
        case AttributeOf(_, attribute):
            return attribute
        case DefaultOf():
            return "default"
    return None


@pytest.mark.parametrize(
    ("text", "target", "given"),
    [
        ("x.view(7, n, m)", aten.view.default, {"size": [None, "n", "m"]}),
        ("x.view((7, n, m))", aten.view.default, {"size": [None, "n", "m"]}),
        ("f(x).view(n)", aten.view.default, {"size": ["n"]}),
        ("x.view(*unknown)", aten.view.default, {}),
        ("x.transpose(n, m)", aten.transpose.int, {"dim0": "n", "dim1": "m"}),
        ("torch.transpose(x, n, m)", aten.transpose.int, {"dim0": "n", "dim1": "m"}),
        ("torch.transpose(input=x, dim1=n, dim0=m)", aten.transpose.int, {"dim0": "m", "dim1": "n"}),
        ("x.sum(n)", aten.sum.dim_IntList, {"dim": "n", "keepdim": "default"}),
        ("x.sum(axis=n, keepdims=True)", aten.sum.dim_IntList, {"dim": "n"}),
        ("x.sum(n, **unknown)", aten.sum.dim_IntList, {"dim": "n"}),
        ("x.relu(n)", aten.transpose.int, {}),
        ("other.transpose(n, m)", aten.transpose.int, {}),
        ("torch.zeros(n, m)", aten.zeros.default, {"size": ["n", "m"], "pin_memory": "default"}),
        ("x.chunk(n, m)", aten.split.Tensor, {"chunks": "n", "dim": "m"}),
        ("x.chunk(n)", aten.split.Tensor, {"chunks": "n"}),
    ],
)
def test_calls(text: str, target: Any, given: dict[str, Any]) -> None:
    found = _of(text, target)
    assert {name: each for name, each in found.items() if name not in ("dtype", "layout", "device")} == given


@pytest.mark.parametrize(
    ("text", "target", "arguments", "given"),
    [
        ("x * n", aten.mul.Tensor, {"self": NAMES["x"], "other": 3}, {"other": "n"}),
        ("n * x", aten.mul.Tensor, {"self": NAMES["x"], "other": 3}, {"other": "n"}),
        ("x * n", aten.mul.Tensor, {"self": NAMES["x"], "other": 5}, {}),
        ("x + n", aten.add.Tensor, {"self": NAMES["x"], "other": 3, "alpha": 1}, {"other": "n", "alpha": "default"}),
        ("x + n", aten.add.Tensor, {"self": NAMES["x"], "other": 3, "alpha": 2}, {"other": "n"}),
        ("x + n", aten.mul.Tensor, {"self": NAMES["x"], "other": 3}, {}),
        ("n ** x", aten.pow.Scalar, {"self": 3, "exponent": NAMES["x"]}, {"self": "n"}),
        ("n < x", aten.gt.Scalar, {"self": NAMES["x"], "other": 3}, {"other": "n"}),
        ("x *= n", aten.mul_.Tensor, {"self": NAMES["x"], "other": 3}, {"other": "n"}),
    ],
)
def test_operators(text: str, target: Any, arguments: Any, given: dict[str, Any]) -> None:
    assert _of(text, target, **arguments) == given
