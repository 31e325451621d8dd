"""What an operator draws at random, as source: a key of the module's ``rngs``, or a dropout that becomes its layer."""

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
    """An expression that draws, and what it draws with; the layout of what is drawn is noted."""
    match draws:
        case Key():
            stage.draws.append(layout)
            return expression, code("rngs()", rngs=held(stage.scope, stage.extra("rngs", code("rngs"))))
        case Dropout():
            rate = variables[draws.rate]
            if rate < 1:
                stage.draws.append(layout)
            name = stage.extra("dropout", code("nnx.Dropout(rate, rngs=rngs)", rate=rate))
            # In evaluation torch drops only where it is told to do so whatever the mode.
            expression = expression if stage.training else syntax.transformed(expression, _always)
            return expression, held(stage.scope, name)


def unread_draw(stage: LoweringContext, operation: Operation) -> None:
    """Note that the original draws here what nothing reads: the written module does not."""
    stage.draws.append(None)


_ALWAYS = syntax.Keyword("deterministic", syntax.Const(False))


def _always(node: syntax.Node) -> syntax.Node:
    """``dropout`` told to drop in evaluation too: where it is called, and where it is handed on."""
    match node:
        case syntax.Call(syntax.Hole(Dropout.name), keywords=keywords):
            return replace(node, keywords=(*keywords, _ALWAYS))
        case syntax.Keyword(name, syntax.Hole(Dropout.name) as dropout):
            call = syntax.Call(dropout, (syntax.Name("weights"),), (_ALWAYS,))
            return syntax.Keyword(name, syntax.Lambda(("weights",), call))
    return node
