"""The branches of a function of the original's: their tests, and the lines that stand in them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from functools import cache
from typing import Any

from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class Branches:
    """The branches of a function.

    Attributes:
        file: that it stands in.
        nodes: the conditional statements, in the order of the source, with the file's line numbers.
        tests: of these, and of conditional expressions.
        returns: where it returns.
    """

    file: str = ""
    nodes: tuple[ast.If, ...] = ()
    tests: tuple[ast.expr, ...] = ()
    returns: tuple[SourceLocation, ...] = ()

    def around(self, line: SourceLocation) -> list[tuple[ast.expr, bool]]:
        """The tests of the branches that a line stands in, and whether they hold there; the innermost first."""
        if line.file != self.file:
            return []
        found = []
        for node in reversed(self.nodes):
            for block, holds in ((node.body, True), (node.orelse, False)):
                if block and block[0].lineno <= line.line <= (block[-1].end_lineno or 0):
                    found.append((node.test, holds))
        return found


@cache
def branches_of(function: Any) -> Branches:
    """The branches of a function; none where its source is not to be had."""
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or ""
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return Branches()
    ast.increment_lineno(tree, first - 1)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    tests = [node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp)]
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    return Branches(
        file,
        tuple(sorted(nodes, key=_place)),
        tuple(sorted(tests, key=_place)),
        tuple(SourceLocation(file, node.lineno) for node in sorted(returns, key=_place)),
    )


def _place(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
