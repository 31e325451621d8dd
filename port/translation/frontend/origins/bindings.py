"""Reaching definitions: which simple assignment gave a variable its value at a point in a function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from port.translation.frontend.origins.executing import SCOPES, SourceFile


@dataclass(frozen=True)
class ParameterBinding:
    """The variable is a parameter."""

    name: str


@dataclass(frozen=True)
class AssignedBinding:
    """A statement assigns the variable.

    Attributes:
        value: the expression on the right-hand side.
        items: indices from the value to the variable: ``(1, 1)`` for ``c`` in ``a, (b, c) = …``.
        statement: the assignment.
    """

    value: ast.expr
    items: tuple[int, ...]
    statement: ast.stmt


@dataclass(frozen=True)
class AugmentedBinding:
    """A statement updates the variable: ``n //= 2``."""

    statement: ast.AugAssign


@dataclass(frozen=True)
class ItemBinding:
    """A statement assigns an item of the variable's value: ``shift[0] = 0``."""

    statement: ast.Assign
    key: ast.expr


@dataclass(frozen=True)
class LoopBinding:
    """A loop assigns the variable in each iteration: ``for window in windows``."""

    statement: ast.For


Binding: TypeAlias = ParameterBinding | AssignedBinding | AugmentedBinding | ItemBinding | LoopBinding

Decide: TypeAlias = Callable[[ast.expr, ast.stmt], bool | None]
"""Returns whether the condition of a statement held; None where it is not known."""


class _Unclear(Exception):
    """Raised where several statements may have assigned the variable, or one that is not a simple assignment."""


class Bindings:
    """The bindings of the variables of one function.

    Args:
        file: the file that contains it.
        scope: the function.
    """

    def __init__(self, file: SourceFile, scope: ast.AST) -> None:
        self.file, self.scope = file, scope
        self._names: dict[ast.AST, frozenset[str]] = {}
        self._known: dict[tuple[str, ast.AST], Binding | None] = {}
        self._within = {node.target.id for node in ast.walk(scope) if isinstance(node, ast.NamedExpr)}
        self._shared = [node for node in ast.walk(scope) if isinstance(node, ast.Global | ast.Nonlocal)]

    def before(self, name: str, node: ast.AST, decide: Decide) -> Binding | None:
        """Return the binding that reaches a node; None where it is uncertain.

        Args:
            name: a local variable of the function.
            node: a node within the function.
            decide: decides conditions whose branches assign the variable.
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
        if not asked:  # the result holds for every run
            self._known[name, node] = found
        return found

    def _before(self, name: str, node: ast.AST, decide: Decide) -> Binding:
        here: ast.AST = self._statement(node, name)
        if not isinstance(here, ast.For | ast.While | ast.If | ast.With | ast.Try) and self._walrus(here, name):
            raise _Unclear
        if isinstance(here, ast.While) and name in self.bound(here):
            raise _Unclear  # the condition is evaluated again after each iteration
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
        """Whether a nested function, defined before this node runs, may have assigned the variable."""
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
        """Raise where the header of an enclosing statement, or an earlier iteration, may assign the variable."""
        if isinstance(parent, ast.If):
            if self._walrus(parent.test, name):
                raise _Unclear
        elif isinstance(parent, ast.With | ast.AsyncWith):
            if any(name in self.bound(item) for item in parent.items):
                raise _Unclear
        elif name in self.bound(parent):
            raise _Unclear

    def _is_of_the_round(self, parent: ast.AST, here: ast.AST, name: str) -> TypeGuard[ast.For]:
        """Whether the variable is the target of an enclosing loop, and not assigned in its body."""
        match parent:
            case ast.For(ast.Name(target), body=body) if target == name and here in body:
                return not any(name in self.bound(statement) for statement in body)
        return False

    def _parameter(self, name: str) -> Binding:
        arguments = getattr(self.scope, "args", None)
        if isinstance(arguments, ast.arguments):
            plain = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            if name in {each.arg for each in (*plain, arguments.vararg, arguments.kwarg) if each is not None}:
                return ParameterBinding(name)
        raise _Unclear

    def _last(self, name: str, block: Sequence[ast.stmt], decide: Decide) -> Binding | None:
        """Return the last binding of a name in a block; None where the block does not assign it."""
        for statement in reversed(block):
            if name in self.bound(statement):
                found = self._binding(name, statement, decide)
                if found is not None:
                    return found
        return None

    def _binding(self, name: str, statement: ast.stmt, decide: Decide) -> Binding | None:
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
            # From Python 3.12 on, a comprehension's variables are in the frame of the function.
            if node is self.scope or any(name in self.bound(target) for target in targets):
                raise _Unclear
            node = self.file.parents[node]
        return node

    def _walrus(self, node: ast.AST, name: str) -> bool:
        """Whether a walrus operator within a node assigns a name."""
        if name not in self._within:
            return False
        return any(isinstance(inner, ast.NamedExpr) and inner.target.id == name for inner in ast.walk(node))

    def bound(self, node: ast.AST) -> frozenset[str]:
        """Return `bound_names`, cached."""
        if node not in self._names:
            self._names[node] = bound_names(node)
        return self._names[node]


def _block_before(parent: ast.AST, here: ast.AST) -> Sequence[ast.stmt]:
    """Return the statements before another one in its own block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and here in block:
            return block[: block.index(here)]
    return ()


def _ways(target: ast.expr, name: str) -> Iterator[tuple[int, ...]]:
    """Yield the index paths to a name in an assignment's target."""
    match target:
        case ast.Name(found) if found == name:
            yield ()
        case ast.Tuple(items) | ast.List(items):
            counted_from = 0
            for place, item in enumerate(items):
                if isinstance(item, ast.Starred):
                    if any(True for _ in _ways(item.value, name)):
                        raise _Unclear
                    counted_from = len(items)  # later items are counted from the end
                    continue
                for way in _ways(item, name):
                    yield (place - counted_from, *way)


def bound_names(node: ast.AST) -> frozenset[str]:
    """Return the names that a statement may assign, nested statements included."""
    return frozenset(_bound(node))


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(name, ast.Store() | ast.Del()):
            yield name
        case ast.Subscript(ast.Name(name), _, ast.Store() | ast.Del()):
            yield name  # its value changes here
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            yield name
            return  # its body is another scope
        case ast.Import(names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name.partition(".")[0] for each in names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
    if isinstance(node, SCOPES):
        # A walrus in a comprehension assigns the function's variable.
        yield from (inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))  # type: ignore
        return
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)
