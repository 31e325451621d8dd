"""The branches of a function of the original's: their tests, and the lines that stand in them."""

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
    """A test of the original's.

    Attributes:
        text: its source.
        expression: the same in our nodes; None where we have none for it.
        line: in its file.
        lines: the lines that run where it holds, first and last.
        otherwise: those that run where it does not.
    """

    text: str
    expression: syntax.Expr | None
    line: int
    lines: tuple[int, int] = (0, -1)
    otherwise: tuple[int, int] = (0, -1)

    def around(self, line: int) -> Iterator[bool]:
        """Whether it holds where a line stands; nothing for a line that stands in none of its branches."""
        for (first, last), holds in ((self.lines, True), (self.otherwise, False)):
            if first <= line <= last:
                yield holds


@dataclass(frozen=True)
class OriginalBranches:
    """The branches of a function.

    Attributes:
        file: that it stands in.
        tests: of its conditional statements and expressions, in the order of the source.
        returns: where it returns.
        names: the variables that it reads.
    """

    file: str = ""
    tests: tuple[OriginalTest, ...] = ()
    returns: tuple[SourceLocation, ...] = ()
    names: frozenset[str] = frozenset()

    def around(self, place: SourceLocation) -> list[tuple[OriginalTest, bool]]:
        """The tests of the branches that a line stands in, and whether they hold there; the innermost first."""
        if place.file != self.file:
            return []
        return [(test, holds) for test in reversed(self.tests) for holds in test.around(place.line)]


@cache
def branches_of(function: Any) -> OriginalBranches:
    """The branches of a function; none where its source is not to be had."""
    function = inspect.unwrap(function)  # of a decorator's wrapper nothing is told
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
