"""Rebuild a list in which the original collects a loop's outputs (skip connections), where a graph has variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from port.translation.ir import syntax
from port.translation.ir.expr import names_in
from port.translation.structure.name_hints import is_reserved
from port.translation.structure.written_body import Body

N = TypeVar("N", bound=syntax.Node)

_FEWEST = 2
_CALLED = ("zip", "enumerate", "reversed")
"""Functions that the loops call."""


def with_lists(body: Body, name: str) -> Iterator[tuple[Body, int]]:
    """Yield bodies that append the values of numbered variables to a list and read them from it later.

    ``skips.append(x)``, ``x = down(x)`` for ``x2 = down(x)``, and ``skips[1]`` for ``x2``: then the iterations of
    the loop look alike.

    Args:
        body: the body as the graph computes it.
        name: the name of the list.

    Yields:
        Each body with the length of its list: first with only the values read late, then with whole lists.
    """
    numbered = (name for name in _assigned(body.statements) if name != _base(name))
    for base in dict.fromkeys(base for base in map(_base, numbered) if not is_reserved(base) and base not in _CALLED):
        for with_listed in (False, True):
            made = _Collecting(body, base, name, with_listed).body()
            if made is not None:
                yield made


def _assigned(statements: Sequence[syntax.Stmt]) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, syntax.Assign) and isinstance(statement.target, syntax.Name):
            yield statement.target.id


def _base(name: str) -> str:
    """The original's name of numbered variables: ``x`` for ``x2``."""
    return name.rstrip("0123456789") or name


@dataclass(eq=False)
class _Version:
    """One assignment to a variable.

    Attributes:
        called: the variable's name.
        place: number of the statement after which the value exists; 0 for a parameter.
        is_late: whether it is read after the variable is assigned again.
    """

    called: str
    place: int
    is_late: bool = False


class _Unfit(Exception):
    """The variables are used in a way that one list cannot reproduce."""


@dataclass
class _Collecting:
    """One attempt.

    Attributes:
        with_listed: whether items of a list display are collected even though nothing reads them late.
        versions: of the variables of one base name, in order.
        read: (statement number, variable) → the version read there.
    """

    before: Body
    base: str
    name: str
    with_listed: bool
    versions: list[_Version] = field(default_factory=list)
    read: dict[tuple[int, str], _Version] = field(default_factory=dict)

    def body(self) -> tuple[Body, int] | None:
        try:
            self._follow()
            late = [version for version in self.versions if version.is_late]
            if len(late) < _FEWEST:
                return None
            return self._written(late), len(late)
        except _Unfit:
            return None

    def _follow(self) -> None:
        """Find the version that each statement reads."""
        own = [each.lstrip("*") for each in self.before.parameters if each.lstrip("*") == self.base]
        self.versions = [_Version(name, 0) for name in own]
        for number, statement in enumerate(self.before.statements):
            is_plain = isinstance(statement, syntax.Assign | syntax.ExprStmt | syntax.Comment)
            if not is_plain and self._group(names_in(statement)):
                raise _Unfit
            value = statement.value if isinstance(statement, syntax.Assign) else statement
            self._reads(number, value)
            if isinstance(statement, syntax.Assign):
                match statement.target:
                    case syntax.Name(name) if _base(name) == self.base:
                        self.versions.append(_Version(name, number + 1))
                    case target if self._group(names_in(target)):
                        raise _Unfit
        self._reads(len(self.before.statements), self.before.returns)

    def _group(self, names: set[str]) -> list[str]:
        return [name for name in names if _base(name) == self.base]

    def _reads(self, number: int, tree: syntax.Node | None) -> None:
        whole = {item.id for node in syntax.walk(tree) for item in _items(node)}
        for name in self._group(names_in(tree)):
            found = next((version for version in reversed(self.versions) if version.called == name), None)
            if found is None:
                raise _Unfit
            self.read[number, name] = found
            found.is_late |= found is not self.versions[-1] or (self.with_listed and name in whole)

    def _written(self, late: list[_Version]) -> Body:
        statements: list[syntax.Stmt] = [syntax.Assign(syntax.Name(self.name), syntax.List(()))]
        appended = {version.place: version for version in late}

        def append(place: int) -> None:
            if place in appended:
                call = syntax.Attribute(syntax.Name(self.name), "append")
                statements.append(syntax.ExprStmt(syntax.Call(call, (syntax.Name(self.base),))))

        append(0)
        for number, statement in enumerate(self.before.statements):
            made = self._renamed(number, statement, late)
            if isinstance(made, syntax.Assign) and isinstance(statement, syntax.Assign):
                is_own = isinstance(statement.target, syntax.Name) and bool(self._group({statement.target.id}))
                made = syntax.Assign(syntax.Name(self.base) if is_own else statement.target, made.value)
            statements.append(made)
            append(number + 1)
        end = len(self.before.statements)
        returns = None if self.before.returns is None else self._renamed(end, self.before.returns, late)
        return Body(self.before.parameters, tuple(statements), returns, self.before.modes)

    def _renamed(self, number: int, tree: N, late: list[_Version]) -> N:
        """Replace reads of earlier versions by reads of the list."""
        now = [version for version in self.versions if version.place <= number]

        def is_whole(items: tuple[syntax.Expr, ...]) -> bool:
            return [
                self.read.get((number, item.id)) if isinstance(item, syntax.Name) else None for item in items
            ] == late

        def of(node: syntax.Node) -> syntax.Node:
            match node:
                case syntax.List(items) if is_whole(items):
                    return syntax.Name(self.name)
                case syntax.Name(name) if (number, name) in self.read:
                    version = self.read[number, name]
                    if version is now[-1]:
                        return syntax.Name(self.base)
                    return syntax.Subscript(syntax.Name(self.name), syntax.Const(late.index(version)))
            return node

        return _outside_in(tree, of)


def _items(node: syntax.Node) -> list[syntax.Name]:
    """The variables that a list display consists of."""
    names = [item for item in node.elts if isinstance(item, syntax.Name)] if isinstance(node, syntax.List) else []
    return names if isinstance(node, syntax.List) and len(names) == len(node.elts) >= _FEWEST else []


def _outside_in(tree: N, change: Callable[[syntax.Node], syntax.Node]) -> N:
    """Transform each node before its children; do not descend into what was replaced."""
    made = cast(N, change(tree))
    return made if made is not tree else syntax.with_parts(tree, lambda part: _outside_in(part, change))
