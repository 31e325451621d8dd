"""The original's names for the items of lists in its loops, and the loops' steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from port.translation.frontend.construction.function_trees import source_tree

Names = str | tuple[str, ...]
"""The name of an item, or the names of its parts."""


@dataclass(frozen=True)
class LoopNames:
    """How a function's loops traverse lists, by the lists' source text.

    Attributes:
        items: the names of items: ``{"self.down": "conv"}``.
        strides: the loop's step: ``{"self.ups": 2}`` for ``for i in range(0, len(self.ups), 2):``.
    """

    items: Mapping[str, Names]
    strides: Mapping[str, int]


def loop_names(original: Any) -> LoopNames:
    """Find the names in a function's loops; none without source.

    Args:
        original: a function of the original.
    """
    loops = [node for node in ast.walk(source_tree(original)) if isinstance(node, ast.For | ast.comprehension)]
    strides = (found for loop in loops if isinstance(loop, ast.For) for found in _strides(loop))
    return LoopNames(
        {ast.unparse(items): name for loop in loops for items, name in _pairs(loop.iter, loop.target)}, dict(strides)
    )


def _strides(loop: ast.For) -> Iterator[tuple[str, int]]:
    """The lists that a loop indexes by its counter, or its counter plus an offset, with the loop's step."""
    match loop:
        case ast.For(
            target=ast.Name(number),
            iter=ast.Call(func=ast.Name("range"), args=[_, _, ast.Constant(value=int(step))]),
        ) if step > 1:
            for node in (node for statement in loop.body for node in ast.walk(statement)):
                match node:
                    case ast.Subscript(value=of, slice=ast.Name(read) | ast.BinOp(left=ast.Name(read), op=ast.Add())):
                        if read == number:
                            yield ast.unparse(of), step


def _pairs(items: ast.expr, target: ast.expr) -> Iterator[tuple[ast.expr, Names]]:
    match items, target:
        case ast.Call(ast.Name("enumerate"), [inner, *_]), ast.Tuple([_, name]):
            yield from _pairs(inner, name)
        case ast.Call(ast.Name("zip"), lists), ast.Tuple(names) if len(lists) == len(names):
            for inner, name in zip(lists, names, strict=True):
                yield from _pairs(inner, name)
        case _, ast.Name(name):
            yield items, name
        case _, ast.Tuple(parts) if all(isinstance(part, ast.Name) for part in parts):
            yield items, tuple(part.id for part in parts if isinstance(part, ast.Name))
