"""What an operator draws at random, as source: a key of the module's ``rngs``, or a dropout that becomes its layer."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from port.pairs.ops.draws import Draws, Dropout, Key
from port.translation.ir.expr import code, held
from port.translation.ir.layout import Layout

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def drawn(
    stage: LoweringContext, draws: Draws, variables: dict[str, Any], text: str, layout: Layout, holes: dict[str, Any]
) -> str:
    """The source of an expression that draws, what it draws with in ``holes``; the layout of what is drawn is noted."""
    match draws:
        case Key():
            stage.draws.append(layout)
            holes["key"] = code("rngs()", rngs=held(stage.scope, stage.extra("rngs", code("rngs"))))
            return text
        case Dropout():
            rate = variables[draws.rate]
            if rate < 1:
                stage.draws.append(layout)
            name = stage.extra("dropout", code("nnx.Dropout(rate, rngs=rngs)", rate=rate))
            holes["dropout"] = held(stage.scope, name)
            # In evaluation torch drops only where it is told to do so whatever the mode.
            return text if stage.training else _always(text)


def _always(text: str) -> str:
    """``dropout`` told to drop in evaluation too: where it is called, and where it is handed on."""
    tree = _Always().visit(ast.parse(text, mode="eval"))
    return ast.unparse(ast.fix_missing_locations(tree))


class _Always(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.Call:
        called = isinstance(node.func, ast.Name) and node.func.id == "dropout"
        func = node.func
        self.generic_visit(node)
        if called:
            node.func = func
            node.keywords.append(ast.keyword("deterministic", ast.Constant(False)))
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id != "dropout":
            return node
        return ast.parse("lambda weights: dropout(weights, deterministic=False)", mode="eval").body
