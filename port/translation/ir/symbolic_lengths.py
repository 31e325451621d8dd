"""Names for the lengths that stay free: ``n`` for a batch, ``h`` and ``w`` for an image."""

from __future__ import annotations

import math
import operator
import random
import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from types import CodeType
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted, names_in
from port.translation.ir.graph import Graph, Size
from port.translation.ir.syntax import parsed, source

_WORD = re.compile(r"[A-Za-z_]\w*")
_BY_RANK = {1: "n", 3: "ntl", 4: "nchw", 5: "ncdhw"}
"""What the axes of an input are called, in torch's order. Names are letters: they stand in formulas and in checks."""


def length_names(
    shapes: Sequence[tuple[Size, ...]], groups: Iterable[Collection[tuple[int, int]]] = ()
) -> dict[str, str]:
    """Names for the symbols in the shapes of inputs, which torch numbers: each is called by its first axis.

    Args:
        shapes: of the inputs.
        groups: axes that have one length, by the inputs' numbers; torch may have a symbol for each of them.
    """
    group_of = {axis: number for number, group in enumerate(groups) for axis in group}
    names: dict[str, str] = {}
    of_groups: dict[int, str] = {}
    for number, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            if not isinstance(size, str) or not size.isidentifier() or size in names:
                continue
            group = group_of.get((number, axis), -1)
            names[size] = of_groups.get(group) or _free_name(_axis_name(len(shape), axis), names.values())
            if group >= 0:
                of_groups.setdefault(group, names[size])
    return names


def renamed(size: Size, names: dict[str, str]) -> Size:
    """A length with other names for its symbols."""
    return size if isinstance(size, int) else _WORD.sub(lambda word: names.get(word[0], word[0]), size)


def names_of(lengths: Iterable[Any], tensors: Sequence[Any]) -> dict[str, Any]:
    """Free lengths by names of their own, as their first axes are called."""
    found: dict[str, Any] = {}
    for length in lengths:
        number, axis = length.axes[0]
        found[_free_name(f"{_axis_name(tensors[number].ndim, axis)}", found)] = length
    return found


def shapes_of(graph: Graph) -> tuple[tuple[Size, ...], ...]:
    """The shapes of a graph's inputs, with their symbols."""
    return tuple(value.shape or () for value in graph.inputs)


def axes_of(formula: Size, graph: Graph) -> set[tuple[int, int]]:
    """The axes of a graph's inputs, by the tensors' numbers, whose lengths stand in a formula."""
    words = set(words_in(formula))
    shapes = enumerate(shapes_of(graph))
    return {(number, axis) for number, shape in shapes for axis, size in enumerate(shape) if words & {*words_in(size)}}


def words_in(formula: Size) -> list[str]:
    """The symbols in a formula, and the functions."""
    return _WORD.findall(str(formula))


def guard_on(guard: str, shapes: tuple[tuple[Size, ...], ...]) -> str | None:
    """What torch.export assumed of the inputs' lengths, as a condition on their names.

    Args:
        guard: Python as torch writes it: ``L['tensors'][0].size()[1] <= 64``.
        shapes: of the inputs.

    Returns:
        the condition; ``unsaid(t)`` where it cannot be said; None if it says nothing of free lengths.
    """
    try:
        condition = _said(parsed(guard), shapes)
    except (_NoLength, SyntaxError):
        names = sorted(
            {word for number, axis in _AXIS.findall(guard) for word in words_in(shapes[int(number)][int(axis)])}
        )
        return f"{UNSAID}({', '.join(names)})" if names else None
    return source(condition) if names_in(condition) else None


UNSAID = "unsaid"
"""Stands for a condition on lengths that has no Python."""
_AXIS = re.compile(r"\[(\d+)\]\.size\(\)\[(\d+)\]")


class _NoLength(Exception):
    pass


def _said(node: syntax.Expr, shapes: tuple[tuple[Size, ...], ...]) -> syntax.Expr:
    """The same with the length's name for ``L['tensors'][i].size()[k]``, and Python's functions for torch's."""

    def inside(part: syntax.Expr) -> syntax.Expr:
        return _said(part, shapes)

    match node:
        case syntax.Subscript(
            syntax.Call(syntax.Attribute(syntax.Subscript(_, syntax.Const(int(number))), "size")),
            syntax.Const(int(axis)),
        ):
            return parsed(str(shapes[number][axis]))
        case syntax.Call(func, arguments):
            return _function(dotted(func), tuple(map(inside, arguments)))
        case syntax.Subscript() | syntax.Name() | syntax.Attribute():
            raise _NoLength
    return syntax.with_parts(node, inside)


def _function(name: str, arguments: tuple[syntax.Expr, ...]) -> syntax.Expr:
    if name in _FUNCTIONS:
        return syntax.Call(syntax.Name(_FUNCTIONS[name]), arguments)
    match name, arguments:
        case "math.floor", (number,):
            return code("number // 1", number=number)
        case "math.ceil", (number,):
            return code("-(-number // 1)", number=number)
        case "torch.sym_float" | "float", (number,):
            return number
    raise _NoLength


_FUNCTIONS = {
    **dict.fromkeys(("max", "torch.sym_max"), "max"),
    **dict.fromkeys(("min", "torch.sym_min"), "min"),
    **dict.fromkeys(("int", "torch.sym_int", "math.trunc"), "int"),
}
"""torch's in a guard → those that `port.nn.functional.expect` knows."""


def _axis_name(rank: int, axis: int) -> str:
    names = _BY_RANK.get(rank, "ntuvwxyz")
    return names[axis] if axis < len(names) else "z"


def _free_name(wanted: str, taken: Iterable[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}{number}", number + 1
    return name


def evaluated(formula: Size, sizes: dict[str, int]) -> Any:
    """What a formula of lengths, or a condition on them, is for numbers.

    Raises:
        NameError: it holds a symbol that has no number, or a function that is not known.
    """
    return formula if isinstance(formula, int) else eval(_compiled(formula), dict(_ARITHMETIC), sizes)


@cache
def _compiled(formula: str) -> CodeType:
    return compile(formula, "<lengths>", "eval")


_ARITHMETIC: dict[str, Any] = {
    "__builtins__": {},
    **dict.fromkeys(("FloorDiv", "CleanDiv"), operator.floordiv),
    **dict.fromkeys(("PythonMod", "Mod"), operator.mod),
    **dict.fromkeys(("IntTrueDiv", "FloatTrueDiv"), operator.truediv),
    **dict.fromkeys(("FloatPow", "PowByNatural"), operator.pow),
    **dict.fromkeys(("TruncToInt", "FloorToInt", "int"), math.floor),
    **dict.fromkeys(("ToFloat", "float"), float),
    **dict.fromkeys(("Max", "max"), max),
    **dict.fromkeys(("Min", "min"), min),
    "CeilToInt": math.ceil,
    "Identity": lambda length: length,
}


@cache
def same(one: Size, other: Size) -> bool:
    """Whether two formulas are the same for all lengths: tried on random ones, large and of no common factor."""
    return _samples(one, other) == _samples(other, one)


def _samples(formula: Size, other: Size) -> tuple[Any, ...]:
    names = sorted({*words_in(formula), *words_in(other)} - _ARITHMETIC.keys())
    generator = random.Random(0)
    drawn = [{name: generator.randrange(3, 4000) for name in names} for _ in range(8)]
    try:
        return tuple(evaluated(formula, sizes) for sizes in drawn)
    except (NameError, TypeError, SyntaxError, ArithmeticError):
        return (str(formula),)


def multiple_of(formula: Size, parts: Sequence[Size]) -> int | None:
    """The whole number that a product of lengths is to be taken times to give a formula; None if there is none."""
    product = "*".join(f"({part})" for part in parts)
    ours, theirs = _samples(formula, product), _samples(product, formula)
    if len(ours) != len(theirs) or any(isinstance(number, str) or not number for number in (*ours, *theirs)):
        return None
    ratios = {divmod(mine, other) for mine, other in zip(ours, theirs, strict=True)}
    ratio, rest = next(iter(ratios))
    return int(ratio) if len(ratios) == 1 and not rest else None
