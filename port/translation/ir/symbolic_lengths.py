"""Name symbolic lengths, ``n`` for a batch, ``h`` and ``w`` for an image, and evaluate formulas of them."""

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
"""Names of an input's axes by its rank, in torch's order. They are short, since formulas and checks contain them."""


def length_names(
    shapes: Sequence[tuple[Size, ...]], groups: Iterable[Collection[tuple[int, int]]] = ()
) -> dict[str, str]:
    """Name the symbols in the inputs' shapes, which torch numbers, each after the first axis that has it.

    Args:
        shapes: the inputs' shapes.
        groups: sets of (input's number, axis) that have equal lengths; torch may have a symbol for each axis.

    Returns:
        torch's symbol → name.
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
    """Rename the symbols in a length."""
    return size if isinstance(size, int) else _WORD.sub(lambda word: names.get(word[0], word[0]), size)


def names_of(lengths: Iterable[Any], tensors: Sequence[Any]) -> dict[str, Any]:
    """Return unique names for free lengths, after their first axes: name → length."""
    found: dict[str, Any] = {}
    for length in lengths:
        number, axis = length.axes[0]
        found[_free_name(f"{_axis_name(tensors[number].ndim, axis)}", found)] = length
    return found


def shapes_of(graph: Graph) -> tuple[tuple[Size, ...], ...]:
    """Return the shapes of a graph's inputs, with symbols."""
    return tuple(value.shape or () for value in graph.inputs)


def axes_of(formula: Size, graph: Graph) -> set[tuple[int, int]]:
    """Return the axes of a graph's inputs whose lengths a formula contains, as (input's number, axis)."""
    words = set(words_in(formula))
    shapes = enumerate(shapes_of(graph))
    return {(number, axis) for number, shape in shapes for axis, size in enumerate(shape) if words & {*words_in(size)}}


def words_in(formula: Size) -> list[str]:
    """Return the symbols and functions in a formula."""
    return _WORD.findall(str(formula))


def guard_on(guard: str, shapes: tuple[tuple[Size, ...], ...]) -> str | None:
    """Convert one of torch.export's guards to a condition on named lengths.

    Args:
        guard: a Python expression from torch: ``L['tensors'][0].size()[1] <= 64``.
        shapes: the inputs' shapes.

    Returns:
        The condition; ``unsaid(t)`` if it has no Python form; None if it has no free lengths.
    """
    try:
        condition = _converted(parsed(guard), shapes)
    except (_NotConvertible, SyntaxError):
        names = sorted(
            {word for number, axis in _AXIS.findall(guard) for word in words_in(shapes[int(number)][int(axis)])}
        )
        return f"{UNSAID}({', '.join(names)})" if names else None
    return source(condition) if names_in(condition) else None


UNSAID = "unsaid"
"""The placeholder for a condition that has no Python form."""
_AXIS = re.compile(r"\[(\d+)\]\.size\(\)\[(\d+)\]")


class _NotConvertible(Exception):
    pass


def _converted(node: syntax.Expr, shapes: tuple[tuple[Size, ...], ...]) -> syntax.Expr:
    """Replace ``L['tensors'][i].size()[k]`` by the length's name, and torch's functions by Python's."""

    def inside(part: syntax.Expr) -> syntax.Expr:
        return _converted(part, shapes)

    match node:
        case syntax.Subscript(
            syntax.Call(syntax.Attribute(syntax.Subscript(_, syntax.Const(int(number))), "size")),
            syntax.Const(int(axis)),
        ):
            return parsed(str(shapes[number][axis]))
        case syntax.Call(func, arguments):
            return _function(dotted(func), tuple(map(inside, arguments)))
        case syntax.Subscript() | syntax.Name() | syntax.Attribute():
            raise _NotConvertible
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
    raise _NotConvertible


_FUNCTIONS = {
    **dict.fromkeys(("max", "torch.sym_max"), "max"),
    **dict.fromkeys(("min", "torch.sym_min"), "min"),
    **dict.fromkeys(("int", "torch.sym_int", "math.trunc"), "int"),
}
"""Functions in torch's guards → functions that `port.nn.functional.expect` supports."""


def _axis_name(rank: int, axis: int) -> str:
    names = _BY_RANK.get(rank, "ntuvwxyz")
    return names[axis] if axis < len(names) else "z"


def _free_name(wanted: str, taken: Iterable[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}{number}", number + 1
    return name


def evaluated(formula: Size, sizes: dict[str, int]) -> Any:
    """Evaluate a formula of lengths, or a condition on them.

    Raises:
        NameError: the formula has a symbol without a value, or an unknown function.
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
    """Whether two formulas are equal for all lengths, tested on eight random sets of lengths up to 4000."""
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
    """Return the integer k such that a formula equals k times the product of lengths; None if there is none."""
    product = "*".join(f"({part})" for part in parts)
    ours, theirs = _samples(formula, product), _samples(product, formula)
    if len(ours) != len(theirs) or any(isinstance(number, str) or not number for number in (*ours, *theirs)):
        return None
    ratios = {divmod(mine, other) for mine, other in zip(ours, theirs, strict=True)}
    ratio, rest = next(iter(ratios))
    return int(ratio) if len(ratios) == 1 and not rest else None
