"""Emit the shape checks at the head of ``__call__``: ``expect(x, "n 32 32 3")``, one line per tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from port.translation.frontend.input_lengths import InputLengths
from port.translation.ir import syntax
from port.translation.ir.expr import code, literal
from port.translation.ir.graph import Graph, Size, Value
from port.translation.ir.layout import Layout
from port.translation.ir.length_expr import length
from port.translation.ir.module_calls import ScopeEnter
from port.translation.ir.symbolic_lengths import words_in
from port.translation.structure.name_hints import own_name


def expectations(
    graph: Graph, layouts: Mapping[Value, Layout], lengths: InputLengths, parameters: list[str]
) -> list[syntax.Stmt]:
    """Return the checks of fixed lengths; no line for a tensor whose lengths are all free.

    Args:
        graph: a run; its first step maps parameter names to input tensors.
        layouts: the inputs' layouts in JAX.
        lengths: the inputs' lengths, in torch's order.
        parameters: the parameters of the generated ``__call__``, with their stars.
    """
    enter = next(step for step in graph.steps if isinstance(step, ScopeEnter))
    taken = {name.lstrip("*"): name for name in parameters}
    shapes = dict(zip(graph.inputs, lengths.shapes, strict=True))
    known: dict[str, syntax.Expr] = {}
    waiting = list(lengths.conditions)
    lines: list[syntax.Stmt] = []
    for value, array in _arrays(enter.arguments, taken):
        shape = [shapes[value][dim] for dim in layouts[value].order]
        own = [size for size in shape if isinstance(size, str) and size.isidentifier()]
        here = {name for size in shape if isinstance(size, str) for name in words_in(size)}
        met = [text for text in waiting if _free(text, lengths) & here and _free(text, lengths) <= here | known.keys()]
        waiting = [text for text in waiting if text not in met]
        formulas = [f"{_axis(axis)} == {_python(size)}" for axis, size in enumerate(shape) if _is_formula(size)]
        if met or formulas or any(name in known for name in own) or len({*own}) < len(shape):
            text = "; ".join([" ".join(_written(axis, size) for axis, size in enumerate(shape)), *formulas, *met])
            asked = {*own, *(word for part in [*met, *formulas] for word in words_in(part))}
            keywords = [syntax.Keyword(name, known[name]) for name in lengths.names if name in asked and name in known]
            call = syntax.Call(code("F.expect"), (array, syntax.Const(text)), tuple(keywords))
            lines.append(syntax.ExprStmt(call))
        for axis, size in enumerate(shape):
            if isinstance(size, str) and size.isidentifier():
                known.setdefault(size, code("x.shape[k]", x=array, k=axis))
    return lines


def _free(condition: str, lengths: InputLengths) -> set[str]:
    return set(words_in(condition)) & {*lengths.names}


def _is_formula(size: Size) -> bool:
    return isinstance(size, str) and not size.isidentifier()


def _python(formula: Size) -> str:
    made = length(formula, lambda text: syntax.Name(text) if text.isidentifier() else None)
    return str(formula) if made is None else syntax.source(made)


def _written(axis: int, size: Size) -> str:
    return _axis(axis) if _is_formula(size) else str(size)


def _axis(axis: int) -> str:
    """Return a placeholder name for a length that is a formula; a condition checks it."""
    return f"axis{axis}"


def _arrays(arguments: dict[str, Any], taken: dict[str, str]) -> Iterator[tuple[Value, syntax.Expr]]:
    """Yield the input tensors, each with the expression that reads it."""
    seen: set[Value] = set()
    for name, argument in arguments.items():
        if name not in taken:
            continue
        for value, array in _within(argument, syntax.Name(own_name(name))):
            if value not in seen and value.rank:
                seen.add(value)
                yield value, array


def _within(argument: Any, expression: syntax.Expr) -> Iterator[tuple[Value, syntax.Expr]]:
    match argument:
        case Value():
            yield argument, expression
        case dict():
            for key, item in argument.items():
                yield from _within(item, syntax.Subscript(expression, literal(key)))
        case tuple() | list():
            for number, item in enumerate(argument):
                yield from _within(item, syntax.Subscript(expression, syntax.Const(number)))
