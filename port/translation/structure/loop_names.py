"""What the original's loops call the items of the lists that they go through, and by which steps they go."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from port.translation.frontend.construction.function_trees import source_tree

Names = str | tuple[str, ...]
"""What an item is called, or what the parts of one are called."""


@dataclass(frozen=True)
class LoopNames:
    """How the loops of a function of the original's go through lists, which are named as they are written there.

    Attributes:
        items: what the items are called: ``{"self.down": "conv"}``.
        strides: by how many items a loop goes on: ``{"self.ups": 2}`` of ``for i in range(0, len(self.ups), 2):``.
    """

    items: Mapping[str, Names]
    strides: Mapping[str, int]


def loop_names(original: Any) -> LoopNames:
    """The names of a function's loops; one without source has none.

    Args:
        original: a function of the original's.
    """
    loops = [node for node in ast.walk(source_tree(original)) if isinstance(node, ast.For | ast.comprehension)]
    strides = (found for loop in loops if isinstance(loop, ast.For) for found in _strides(loop))
    return LoopNames(
        {ast.unparse(items): name for loop in loops for items, name in _pairs(loop.iter, loop.target)}, dict(strides)
    )


def _strides(loop: ast.For) -> Iterator[tuple[str, int]]:
    """The lists of which a loop reads items at its number, or so many behind it, and its step."""
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
