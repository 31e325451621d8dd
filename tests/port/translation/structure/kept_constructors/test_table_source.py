"""A constructor's statements that compute a table, in JAX: what is translated, and what is rejected."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest
import torch

from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.table_source import TableSource

AROUND = {"torch": torch, "math": math}


def stands_for(node: ast.expr) -> Any:
    try:
        return eval(ast.unparse(node), dict(AROUND))
    except (NameError, AttributeError):
        return None


def source_of(text: str) -> TableSource:
    """Of a constructor whose last line gives what is registered."""
    definition = ast.parse(f"def construct(self, width):\n    {text}").body[0]
    assert isinstance(definition, ast.FunctionDef)
    statement = definition.body[-1]
    assert isinstance(statement, ast.Expr)
    return TableSource(definition, statement, statement.value, stands_for, is_floating=True)


def table(text: str, width: int) -> torch.Tensor:
    *lines, last = text.split("\n    ")
    names = {**AROUND, "width": width, "self": None}
    exec("\n".join(lines), names)
    made = eval(last, names)
    assert isinstance(made, torch.Tensor)
    return made


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("torch.ones(width, 3).tril()", "jnp.tril(jnp.ones((width, 3)))"),
        ("torch.arange(width).view(1, -1).float()", "jnp.arange(width).reshape(1, -1)"),
        ("x = torch.linspace(0, 1, width)\n    torch.stack([x, x ** 2], dim=1)", "jnp.stack([x, x ** 2], axis=1)"),
        ("x = torch.eye(width)\n    x += 1\n    x.unsqueeze(-1).repeat(1, 1, 2)", "jnp.tile(x[..., None], (1, 1, 2))"),
        ("x = torch.zeros((width, 4))\n    x[1:, 0] = 2.0\n    x.t()", "x.T"),
        ("torch.tensor(width ** 0.5)", "jnp.array(width ** 0.5)"),
        ("n = width // 2\n    torch.pow(2.0, torch.arange(n)).unsqueeze(1)", "(2.0 ** jnp.arange(n))[:, None]"),
    ],
)
def test_it_is_what_the_original_has(text: str, written: str) -> None:
    source, expected = source_of(text), table(text, 5)
    assert ast.unparse(source.expression(source.value, lambda node: node)) == written
    names = {"width": 5, "n": 2}
    source.check(names, AROUND, None, expected)
    for other in (expected * (1 + 1e-6), expected[:-1] if expected.ndim else expected[None]):
        with pytest.raises(CannotKeep, match="is not the result of its constructor's statements"):
            source.check(names, AROUND, None, other)


INFINITE = """x = torch.zeros(width, 4)
    x[0, 0] = float('-inf')
    x[:, 1] = torch.sin(torch.arange(width) * 1000.0)
    x"""


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        (INFINITE, "jnp.sin", "jnp.cos"),
        (INFINITE, "1000.0", "1000.0000001"),
        ("torch.tril(torch.ones(width, width))", "jnp.tril", "jnp.triu"),
    ],
)
def test_what_is_written_gives_the_same(text: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(text)
    source.check({"width": 5}, AROUND, None, table(text, 5))
    faithful = TableSource.expression

    def faulty(self: TableSource, node: ast.expr, plain: Any) -> ast.expr:
        return ast.parse(ast.unparse(faithful(self, node, plain)).replace(right, wrong), mode="eval").body

    monkeypatch.setattr(TableSource, "expression", faulty)
    with pytest.raises(CannotKeep, match="has other numbers"):
        source.check({"width": 5}, AROUND, None, table(text, 5))


@pytest.mark.parametrize("text", ["torch.eye(width, dtype=torch.bool)", "torch.zeros(width, 2, dtype=torch.long)"])
def test_a_table_of_another_type_is_refused(text: str) -> None:
    source = source_of(text)
    source.is_floating = False
    with pytest.raises(CannotKeep, match="another shape or dtype"):
        source.check({"width": 5}, AROUND, None, table(text, 5))


@pytest.mark.parametrize(
    "text",
    [
        "torch.randn(width)",
        "x = torch.zeros(width)\n    x.fill_(2)\n    torch.histc(x)",
        "x = torch.zeros(width)\n    for i in range(width):\n        x[i] = i\n    x.unsqueeze(0)",
        "width * 2",
        "torch.tensor([1.0, 2.0])",
        "torch.tensor(1.0, names=())",
        "torch.tril(torch.ones(width, width), diagonal=1)",
    ],
)
def test_what_is_not_written_is_refused(text: str) -> None:
    with pytest.raises(CannotKeep):
        source = source_of(text)
        for statement in source.statements:
            source.written(statement, lambda node: node)
        source.expression(source.value, lambda node: node)
