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

_POSITIONAL = 2  # at most two positional arguments, often the input and output size; the others are keywords
N = TypeVar("N", bound=syntax.Node)


def shortened_calls(tree: N, names: Mapping[str, FoldedClass]) -> N:
    """Shorten all calls in a tree."""

    def shorter(node: syntax.Node) -> syntax.Node:
        match node:
            case syntax.Call(syntax.Name(name)) if name in names:
                return _own_call(node, names[name])
            case syntax.Call():
                return repeated(shortened(node))
        return node

    return syntax.transformed(tree, shorter)


def _own_call(node: syntax.Call, made: FoldedClass) -> syntax.Call:
    """Shorten the construction of a generated class: required arguments first, then keywords that are not defaults."""
    passed = {keyword.arg: keyword.value for keyword in node.keywords}
    required = [argument for argument in made.arguments if argument.default is None]
    positional = [argument.name for argument in required if not argument.by_name][:_POSITIONAL]
    arguments = [passed[name] for name in positional]
    keywords = [syntax.Keyword(each.name, passed[each.name]) for each in required if each.name not in positional]
    keywords += [
        syntax.Keyword(argument.name, passed[argument.name])
        for argument in made.arguments
        if argument.default is not None and passed[argument.name] != argument.default
    ]
    options = syntax.Keyword(None, syntax.Name(OPTIONS))
    return syntax.Call(node.func, tuple(arguments), (*keywords, options))


def repeated(node: syntax.Call) -> syntax.Call:
    """Write equal children of a Sequential or a list as a comprehension: ``*[Block(64) for _ in range(36)]``."""
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
    """Replace each run of more than two equal calls by a comprehension."""
    made: list[syntax.Expr] = []
    for item, equal in groupby(items):
        count = len(list(equal))
        if count > 2 and isinstance(item, syntax.Call):
            loop = syntax.Comprehension(syntax.Name("_"), code(f"range({count})"))
            made.append(syntax.Starred(syntax.ListComp(item, (loop,))))
        else:
            made += [item] * count
    return tuple(made)
