"""The text of statements parses back to the same statements."""

from __future__ import annotations

import ast

import pytest

from port.translation.codegen.statements import text_of
from port.translation.ir.syntax import (
    AnnAssign,
    Assign,
    ClassDef,
    Comment,
    Docstring,
    ExprStmt,
    FunctionDef,
    If,
    Name,
    Parameter,
    Pass,
    Return,
    parsed,
)

from ..statements_read import statements


@pytest.mark.parametrize(
    "text",
    [
        "x = f(x)\nf(x, y=2)\nreturn (x, y)",
        "self.steps[...] = x\n(h, outs) = g(h, [x])",
        "for layer in self.layers[:2]:\n    x = layer(x)\n    f(x)",
        "if a:\n    x = 1\nif b:\n    x = 2\nelse:\n    x = 3\n    f(x)",
        "if a:\n    x = 1\nelif b:\n    x = 2\nelif c:\n    f(x)\nelse:\n    x = 3",
        "if a:\n    if b:\n        x = 1\nelse:\n    x = 2",
        "if a:\n    x = 1\nelse:\n    if b:\n        x = 2\n    f(x)",
    ],
)
def test_statements_there_and_back(text: str) -> None:
    assert ast.dump(ast.parse(text_of(*statements(text)))) == ast.dump(ast.parse(text))


PARAMETERS = (
    Parameter("self"),
    Parameter("x", parsed("jax.Array")),
    Parameter("k", parsed("int"), parsed("3")),
    Parameter("dtype", default=parsed("None"), kind="name"),
    Parameter("rngs", parsed("nnx.Rngs"), kind="name"),
    Parameter("options", parsed("Any"), kind="**"),
)


def test_a_class() -> None:
    call = FunctionDef(
        "__call__",
        PARAMETERS,
        (
            Comment("# the mean"),
            If(parsed("k > 0"), (FunctionDef("step", (Parameter("h"),), (Return(parsed("h")),)),)),
            AnnAssign(parsed("options"), parsed("dict[str, Any]"), parsed("{}")),
            Return(parsed("x")),
        ),
        (parsed("nnx.remat(static_argnums=2)"),),
        parsed("jax.Array"),
    )
    made = text_of(ClassDef("Block", (parsed("nnx.Module"),), (Docstring("A block."), call)))
    expected = '''
class Block(nnx.Module):
    """A block."""
    @nnx.remat(static_argnums=2)
    def __call__(self, x: jax.Array, k: int = 3, *, dtype=None, rngs: nnx.Rngs, **options: Any) -> jax.Array:
        # the mean
        if k > 0:
            def step(h):
                return h
        options: dict[str, Any] = {}
        return x
'''
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(expected))
    assert "        # the mean\n" in made


def test_what_gathers_arguments_needs_no_star_of_its_own() -> None:
    taken = (Parameter("x"), Parameter("more", kind="*"), Parameter("k", kind="name"))
    assert text_of(FunctionDef("f", taken, (Pass(),))).strip() == "def f(x, *more, k):\n    pass"


def test_a_comment_alone_and_a_call() -> None:
    assert (
        text_of(Comment("# %% Loss"), ExprStmt(parsed("f()")), Assign(Name("x"), parsed("1")))
        == "# %% Loss\nf()\nx = 1"
    )
