"""What a name was last given before a point in a function: reaching definitions of simple assignments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from port.translation.frontend.origins.executing import SCOPES, SourceFile


@dataclass(frozen=True)
class ParameterBinding:
    """The function was called with it."""

    name: str


@dataclass(frozen=True)
class AssignedBinding:
    """A statement gives it.

    Attributes:
        value: of the statement.
        items: the way from the value to what the name is given: ``a, (b, c) = …`` gives ``c`` by ``(1, 1)``.
        statement: the assignment.
    """

    value: ast.expr
    items: tuple[int, ...]
    statement: ast.stmt


@dataclass(frozen=True)
class AugmentedBinding:
    """A statement works it out from what it was before: ``n //= 2``."""

    statement: ast.AugAssign


@dataclass(frozen=True)
class ItemBinding:
    """A statement gives an item of what it was before another value: ``shift[0] = 0``."""

    statement: ast.Assign
    key: ast.expr


@dataclass(frozen=True)
class LoopBinding:
    """A loop gives it, in each of its rounds another: ``for window in windows``."""

    statement: ast.For


Binding: TypeAlias = ParameterBinding | AssignedBinding | AugmentedBinding | ItemBinding | LoopBinding

Decide: TypeAlias = Callable[[ast.expr, ast.stmt], bool | None]
"""Whether the condition of a statement held; None where it is not known."""


class _Unclear(Exception):
    """More than one statement may have given it, or one that is no simple assignment."""


class Bindings:
    """The bindings of one function's names.

    Args:
        file: that it stands in.
        scope: the function.
    """

    def __init__(self, file: SourceFile, scope: ast.AST) -> None:
        self.file, self.scope = file, scope
        self._names: dict[ast.AST, frozenset[str]] = {}
        self._known: dict[tuple[str, ast.AST], Binding | None] = {}
        self._within = {node.target.id for node in ast.walk(scope) if isinstance(node, ast.NamedExpr)}
        self._shared = [node for node in ast.walk(scope) if isinstance(node, ast.Global | ast.Nonlocal)]

    def before(self, name: str, node: ast.AST, decide: Decide) -> Binding | None:
        """What gave a name the value that it has at a node; None where that is not certain.

        Args:
            name: of a variable of the function's own.
            node: within the function.
            decide: is asked about conditions behind which the name was given another value.
        """
        if (name, node) in self._known:
            return self._known[name, node]
        asked = False

        def asking(test: ast.expr, statement: ast.stmt) -> bool | None:
            nonlocal asked
            asked = True
            return decide(test, statement)

        try:
            found = None if self._is_shared(name, node) else self._before(name, node, asking)
        except _Unclear:
            found = None
        if not asked:  # it is so in every run
            self._known[name, node] = found
        return found

    def _before(self, name: str, node: ast.AST, decide: Decide) -> Binding:
        here: ast.AST = self._statement(node, name)
        if not isinstance(here, ast.For | ast.While | ast.If | ast.With | ast.Try) and self._walrus(here, name):
            raise _Unclear
        if isinstance(here, ast.While) and name in self.bound(here):
            raise _Unclear  # the condition is asked again behind each round
        while True:
            parent = self.file.parents[here]
            found = self._last(name, _block_before(parent, here), decide)
            if found is not None:
                return found
            if parent is self.scope:
                return self._parameter(name)
            if not isinstance(parent, ast.stmt | ast.ExceptHandler | ast.match_case):
                raise _Unclear
            if self._is_of_the_round(parent, here, name):
                return LoopBinding(parent)
            self._check_header(parent, name)
            here = parent

    def _is_shared(self, name: str, node: ast.AST) -> bool:
        """Whether a function within may have given the name another value: one that is there by then."""
        for statement in self._shared:
            if name not in statement.names:
                continue
            around = {*self._around(statement)}
            if statement.lineno <= node.lineno or any(  # type: ignore[attr-defined]
                isinstance(each, ast.For | ast.While) and each in around for each in self._around(node)
            ):
                return True
        return False

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        while node is not self.scope:
            node = self.file.parents[node]
            yield node

    def _check_header(self, parent: ast.AST, name: str) -> None:
        """A statement around a point may give the name too, before the point or in the round before."""
        if isinstance(parent, ast.If):
            if self._walrus(parent.test, name):
                raise _Unclear
        elif isinstance(parent, ast.With | ast.AsyncWith):
            if any(name in self.bound(item) for item in parent.items):
                raise _Unclear
        elif name in self.bound(parent):
            raise _Unclear

    def _is_of_the_round(self, parent: ast.AST, here: ast.AST, name: str) -> TypeGuard[ast.For]:
        """Whether a loop around a point gives the name what it has there, and nothing within gives it another."""
        match parent:
            case ast.For(ast.Name(given), body=body) if given == name and here in body:
                return not any(name in self.bound(statement) for statement in body)
        return False

    def _parameter(self, name: str) -> Binding:
        given = getattr(self.scope, "args", None)
        if isinstance(given, ast.arguments):
            several = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
            if name in {each.arg for each in several if each is not None}:
                return ParameterBinding(name)
        raise _Unclear

    def _last(self, name: str, block: Sequence[ast.stmt], decide: Decide) -> Binding | None:
        """What the statements of a block give a name; None where they leave it."""
        for statement in reversed(block):
            if name in self.bound(statement):
                found = self._given(name, statement, decide)
                if found is not None:
                    return found
        return None

    def _given(self, name: str, statement: ast.stmt, decide: Decide) -> Binding | None:
        match statement:
            case ast.Assign([ast.Subscript(ast.Name(), key)]) if not isinstance(key, ast.Slice):
                if not self._walrus(statement, name):
                    return ItemBinding(statement, key)
            case ast.Assign(targets, value):
                ways = [way for target in targets for way in _ways(target, name)]
                if len(ways) == 1 and not self._walrus(value, name):
                    return AssignedBinding(value, ways[0], statement)
            case ast.AnnAssign(ast.Name(), value=ast.expr() as value) if not self._walrus(value, name):
                return AssignedBinding(value, (), statement)
            case ast.AugAssign(ast.Name()) if not self._walrus(statement.value, name):
                return AugmentedBinding(statement)
            case ast.If(test, body, orelse) if not self._walrus(test, name):
                held = decide(test, statement)
                if held is not None:
                    return self._last(name, body if held else orelse, decide)
            case ast.With(items, body) if not any(name in self.bound(item) for item in items):
                return self._last(name, body, decide)
        raise _Unclear

    def _statement(self, node: ast.AST, name: str) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            targets = [each.target for each in getattr(node, "generators", ())]
            # From Python 3.12 on, a comprehension's variable is found in the frame of the function.
            if node is self.scope or any(name in self.bound(target) for target in targets):
                raise _Unclear
            node = self.file.parents[node]
        return node

    def _walrus(self, node: ast.AST, name: str) -> bool:
        """Whether a name is given a value within an expression."""
        if name not in self._within:
            return False
        return any(isinstance(inner, ast.NamedExpr) and inner.target.id == name for inner in ast.walk(node))

    def bound(self, node: ast.AST) -> frozenset[str]:
        """`bound_names`, worked out once."""
        if node not in self._names:
            self._names[node] = bound_names(node)
        return self._names[node]


def _block_before(parent: ast.AST, here: ast.AST) -> Sequence[ast.stmt]:
    """The statements that stand before another one in its own block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and here in block:
            return block[: block.index(here)]
    return ()


def _ways(target: ast.expr, name: str) -> Iterator[tuple[int, ...]]:
    """The ways to a name in what is assigned to."""
    match target:
        case ast.Name(found) if found == name:
            yield ()
        case ast.Tuple(items) | ast.List(items):
            counted_from = 0
            for place, item in enumerate(items):
                if isinstance(item, ast.Starred):
                    if any(True for _ in _ways(item.value, name)):
                        raise _Unclear
                    counted_from = len(items)  # what follows is counted from the end
                    continue
                for way in _ways(item, name):
                    yield (place - counted_from, *way)


def bound_names(node: ast.AST) -> frozenset[str]:
    """The names that a statement, and what stands in it, may give a value to."""
    return frozenset(_bound(node))


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(name, ast.Store() | ast.Del()):
            yield name
        case ast.Subscript(ast.Name(name), _, ast.Store() | ast.Del()):
            yield name  # what it holds is another from here on
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            yield name
            return  # what is inside has variables of its own
        case ast.Import(names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name.partition(".")[0] for each in names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
    if isinstance(node, SCOPES):
        # A walrus in a comprehension gives the function's variable.
        yield from (inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))  # type: ignore
        return
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)
