"""The branches of one of the original's functions: their tests, and the lines inside them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class OriginalTest:
    """The test of an ``if`` statement or a conditional expression of the original.

    Attributes:
        text: its source.
        expression: the test in our syntax nodes; None where they cannot express it.
        line: its line in the file.
        lines: first and last line of the branch where the test holds.
        otherwise: first and last line of the other branch.
    """

    text: str
    expression: syntax.Expr | None
    line: int
    lines: tuple[int, int] = (0, -1)
    otherwise: tuple[int, int] = (0, -1)

    def around(self, line: int) -> Iterator[bool]:
        """Yield whether the test holds at a line; nothing for a line outside its branches."""
        for (first, last), holds in ((self.lines, True), (self.otherwise, False)):
            if first <= line <= last:
                yield holds


@dataclass(frozen=True)
class OriginalBranches:
    """The branches of a function.

    Attributes:
        file: the file that defines the function.
        tests: the tests of its conditional statements and expressions, in source order.
        returns: the lines of its return statements.
        names: the variables that it reads.
    """

    file: str = ""
    tests: tuple[OriginalTest, ...] = ()
    returns: tuple[SourceLocation, ...] = ()
    names: frozenset[str] = frozenset()

    def around(self, place: SourceLocation) -> list[tuple[OriginalTest, bool]]:
        """The tests of the branches around a line, innermost first, and whether each holds there."""
        if place.file != self.file:
            return []
        return [(test, holds) for test in reversed(self.tests) for holds in test.around(place.line)]


@cache
def branches_of(function: Any) -> OriginalBranches:
    """Find the branches of a function; none where its source is not available."""
    function = inspect.unwrap(function)  # the wrapper that a decorator adds says nothing about its branches
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or ""
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return OriginalBranches(names=frozenset(inspect.signature(function).parameters))
    ast.increment_lineno(tree, first - 1)
    nodes = list(ast.walk(tree))
    tests = [_test(node) for node in nodes if isinstance(node, ast.If | ast.IfExp)]
    returns = sorted(node.lineno for node in nodes if isinstance(node, ast.Return))
    return OriginalBranches(
        file,
        tuple(sorted(tests, key=lambda test: test.line)),
        tuple(SourceLocation(file, line) for line in returns),
        frozenset(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)),
    )


def _test(node: ast.If | ast.IfExp) -> OriginalTest:
    text = ast.unparse(node.test)
    try:
        expression = syntax.parsed(text)
    except (SyntaxError, KeyError):
        expression = None
    if isinstance(node, ast.IfExp):
        return OriginalTest(text, expression, node.test.lineno)
    return OriginalTest(text, expression, node.test.lineno, _range(node.body), _range(node.orelse))


def _range(block: list[ast.stmt]) -> tuple[int, int]:
    return (block[0].lineno, block[-1].end_lineno or block[-1].lineno) if block else (0, -1)
