"""Lower random draws: a key of the module's ``rngs``, or a dropout layer that the module gets as an attribute."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.pairs.ops.draws import Draws, Dropout, Key
from port.translation.ir import syntax
from port.translation.ir.expr import code, held
from port.translation.ir.layout import Layout

if TYPE_CHECKING:
    from port.translation.ir.graph import Operation
    from port.translation.lowering.context import LoweringContext


def drawn(
    stage: LoweringContext, draws: Draws, variables: dict[str, Any], expression: syntax.Expr, layout: Layout
) -> tuple[syntax.Expr, syntax.Expr]:
    """Return an expression that draws, and the expression of its key or dropout layer; record the draw's layout."""
    match draws:
        case Key():
            stage.draws.append(layout)
            return expression, code("rngs()", rngs=held(stage.scope, stage.extra("rngs", code("rngs"))))
        case Dropout():
            rate = variables[draws.rate]
            if rate < 1:
                stage.draws.append(layout)
            name = stage.extra("dropout", code("nnx.Dropout(rate, rngs=rngs)", rate=rate))
            # A dropout in the evaluation graph is one with training=True fixed, independent of the mode.
            expression = expression if stage.training else syntax.transformed(expression, _not_deterministic)
            return expression, held(stage.scope, name)


def unread_draw(stage: LoweringContext, operation: Operation) -> None:
    """Record a draw of the original that nothing reads; the generated module does not draw it."""
    stage.draws.append(None)


_NOT_DETERMINISTIC = syntax.Keyword("deterministic", syntax.Const(False))


def _not_deterministic(node: syntax.Node) -> syntax.Node:
    """Add ``deterministic=False`` to a dropout, where it is called and where it is passed as an argument."""
    match node:
        case syntax.Call(syntax.Hole(Dropout.name), keywords=keywords):
            return replace(node, keywords=(*keywords, _NOT_DETERMINISTIC))
        case syntax.Keyword(name, syntax.Hole(Dropout.name) as dropout):
            call = syntax.Call(dropout, (syntax.Name("weights"),), (_NOT_DETERMINISTIC,))
            return syntax.Keyword(name, syntax.Lambda(("weights",), call))
    return node
