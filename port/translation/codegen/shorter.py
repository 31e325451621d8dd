"""Shorten calls: drop arguments that are defaults, and write equal elements once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.constructors import OPTIONS, shortened

_BY_PLACE = 2  # arguments: what comes in and what goes out; others say their names
N = TypeVar("N", bound=syntax.Node)


def shortened_calls(tree: N, names: Mapping[str, FoldedClass]) -> N:
    """A tree whose calls say no more than they have to."""

    def shorter(node: syntax.Node) -> syntax.Node:
        match node:
            case syntax.Call(syntax.Name(name)) if name in names:
                return _own_call(node, names[name])
            case syntax.Call():
                return repeated(shortened(node))
        return node

    return syntax.transformed(tree, shorter)


def _own_call(node: syntax.Call, made: FoldedClass) -> syntax.Call:
    """A construction of one of our classes: first what has to be given, then by name what is not the default."""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    required = [argument for argument in made.arguments if argument.default is None]
    by_place = [argument.name for argument in required if not argument.by_name][:_BY_PLACE]
    arguments = [given[name] for name in by_place]
    keywords = [syntax.Keyword(each.name, given[each.name]) for each in required if each.name not in by_place]
    keywords += [
        syntax.Keyword(argument.name, given[argument.name])
        for argument in made.arguments
        if argument.default is not None and given[argument.name] != argument.default
    ]
    options = syntax.Keyword(None, syntax.Name(OPTIONS))
    return syntax.Call(node.func, tuple(arguments), (*keywords, options))


def repeated(node: syntax.Call) -> syntax.Call:
    """Equal children of a Sequential or a list as a comprehension: ``*[Block(64) for _ in range(36)]``."""
    match dotted(node.func), node.args:
        case "nnx.List" | "port.nn.stacked", (syntax.List(items), *_):
            runs = runs_of(items)
            if len(runs) == 1 and isinstance(runs[0], syntax.Starred):
                return syntax.Call(node.func, (runs[0].value,))
            return syntax.Call(node.func, (syntax.List(runs),))
        case "nnx.Sequential" | "flax.nnx.Sequential", arguments:
            return replace(node, args=runs_of(arguments))
    return node


def runs_of(items: Sequence[syntax.Expr]) -> tuple[syntax.Expr, ...]:
    """Expressions with a comprehension for each run of equal calls, if it is longer than two."""
    made: list[syntax.Expr] = []
    for item, equal in groupby(items):
        count = len(list(equal))
        if count > 2 and isinstance(item, syntax.Call):
            loop = syntax.Comprehension(syntax.Name("_"), code(f"range({count})"))
            made.append(syntax.Starred(syntax.ListComp(item, (loop,))))
        else:
            made += [item] * count
    return tuple(made)
