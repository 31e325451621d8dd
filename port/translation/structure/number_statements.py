"""The original's own statements that work out, of plain numbers, what a condition of a function asks for.

Where some calls of a function take a branch and others do not, the written function says the condition, and before it
what the original works it out of: ``shift = shift.copy()``, ``if window >= H: shift[0] = 0``, ``if sum(shift) > 0:``.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType

from port.translation.ir import syntax
from port.translation.structure.branches import OriginalTest
from port.translation.structure.name_hints import own_name

_FUNCTIONS = {"abs", "all", "any", "bool", "float", "int", "len", "list", "max", "min", "round", "sum", "tuple"}
_METHODS = {"copy"}
_NODES = (
    *(ast.Constant, ast.Name, ast.Subscript, ast.Tuple, ast.List, ast.Call, ast.Attribute, ast.IfExp, ast.Slice),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
    *(ast.expr_context, ast.ListComp, ast.GeneratorExp, ast.comprehension),
)


class NoNumbers(Exception):
    """A condition depends on something else than plain numbers."""


@dataclass(frozen=True)
class NumberStatement:
    """A statement of the original's that gives numbers.

    Attributes:
        line: in its file.
        statement: in our nodes.
        read: the variables that it reads, as ours are called.
        given: those that it gives values to.
    """

    line: int
    statement: syntax.Stmt
    read: frozenset[str]
    given: frozenset[str]


@dataclass(frozen=True)
class AskedNumbers:
    """A condition, and what comes before it.

    Attributes:
        test: the condition.
        read: the variables that it reads, as ours are called.
        before: what works them out, in the original's order.
    """

    test: syntax.Expr
    read: frozenset[str]
    before: tuple[NumberStatement, ...] = ()


def asked_by(
    function: FunctionType, test: OriginalTest, known: Collection[str], tensors: Collection[str]
) -> AskedNumbers:
    """A test of a function's, with the statements that work out what it asks.

    Args:
        function: the original's.
        test: of a branch of it.
        known: the variables whose values the written function has anyway: lengths with names.
        tensors: the parameters that are given something else than plain numbers.

    Raises:
        NoNumbers: it depends on something else.
    """
    return _Reading(function, frozenset(known), frozenset(tensors)).asked(test)


class _Reading:
    def __init__(self, function: FunctionType, known: frozenset[str], tensors: frozenset[str]) -> None:
        self.definition = _definition(function.__code__.co_filename, function.__code__.co_firstlineno, function)
        given = self.definition.args
        self.parameters = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        self.known, self.tensors = known, tensors
        self.wanted: set[int] = set()  # lines of the assignments that are needed
        self.seen: set[tuple[str, int]] = set()

    def asked(self, test: OriginalTest) -> AskedNumbers:
        node = next(
            (each.test for each in ast.walk(self.definition) if isinstance(each, ast.If) and _is_at(each, test)), None
        )
        if node is None:
            raise NoNumbers
        self._need_all(node, test.line)
        before = tuple(self._statements(self.definition.body, test.line))
        return AskedNumbers(_said(node), frozenset(map(own_name, _names(node))), before)

    # %% What is needed

    def _need_all(self, node: ast.expr, line: int) -> None:
        """Take note of what gives the variables in an expression their values.

        Args:
            node: the expression.
            line: where it stands.

        Raises:
            NoNumbers: something else than statements of plain numbers does.
        """
        for name in self._plain_names(node):
            self._need(name, line)

    def _plain_names(self, node: ast.expr) -> set[str]:
        """The names that an expression of plain numbers reads, but for what is asked to be None or not."""
        match node:
            case ast.Compare(ast.Name(name), [ast.Is() | ast.IsNot()], [ast.Constant(None)]):
                if name in self.parameters and not any(True for _ in _bindings(self.definition.body, name)):
                    return set()
            case ast.BoolOp(values=values):
                return set().union(*map(self._plain_names, values))
            case ast.UnaryOp(ast.Not(), operand):
                return self._plain_names(operand)
        for inner in ast.walk(node):
            match inner:
                case ast.Call(ast.Name(name), _, []) if name in _FUNCTIONS:
                    continue
                case ast.Call(ast.Attribute(_, name), [], []) if name in _METHODS:
                    continue
                case ast.Attribute(_, name) if name in _METHODS:
                    continue
                case ast.Call() | ast.Attribute():
                    raise NoNumbers
            if not isinstance(inner, _NODES):
                raise NoNumbers
        return _names(node)

    def _need(self, name: str, line: int) -> None:
        if (name, line) in self.seen:
            return
        self.seen.add((name, line))
        if (name in self.parameters and name in self.tensors) or self._has_another_name(name):
            raise NoNumbers
        found = [each for each in _bindings(self.definition.body, name) if each[0].lineno < line]
        if name in self.known:
            if len(found) == 1:  # it is what the shape gave
                return
            raise NoNumbers
        if not found and name not in self.parameters:
            raise NoNumbers
        for statement, tests in found:
            match statement:
                case ast.Assign([ast.Name()], value) | ast.AugAssign(ast.Name(), _, value):
                    self._need_all(value, statement.lineno)
                case ast.Assign([ast.Subscript(ast.Name(), key)], value) if not isinstance(key, ast.Slice):
                    self._need_all(value, statement.lineno)
                    self._need_all(key, statement.lineno)
                case _:
                    raise NoNumbers
            if isinstance(statement, ast.AugAssign):
                self._need(name, statement.lineno)
            for test in tests:
                self._need_all(test, test.lineno)
            self.wanted.add(statement.lineno)

    def _has_another_name(self, name: str) -> bool:
        """Whether what a variable holds is changed by another name that it has: ``other = shift; other[0] = 0``."""
        others = set()
        for node in ast.walk(self.definition):
            match node:
                case ast.Assign(targets, ast.Name(given)):
                    names = {given, *(target.id for target in targets if isinstance(target, ast.Name))}
                    others |= names - {name} if name in names else set()
        return any(
            _changes(node, other)
            for other in others
            for node in ast.walk(self.definition)
            if isinstance(node, ast.Subscript | ast.AugAssign | ast.Call)
        )

    # %% As our statements

    def _statements(self, block: Sequence[ast.stmt], end: int) -> Iterator[NumberStatement]:
        for statement in block:
            if statement.lineno >= end:
                break
            made = self._statement(statement)
            if made is not None:
                read = {node.id for node in syntax.walk(made) if isinstance(node, syntax.Name)} - _FUNCTIONS
                yield NumberStatement(statement.lineno, made, frozenset(read), frozenset(_given_by(made)))

    def _statement(self, statement: ast.stmt) -> syntax.Stmt | None:
        match statement:
            case ast.If(test, body, orelse):
                inside, otherwise = (tuple(filter(None, map(self._statement, each))) for each in (body, orelse))
                if not inside and not otherwise:
                    return None
                if not inside:
                    return syntax.If(syntax.UnaryOp("not", _said(test)), otherwise)
                return syntax.If(_said(test), inside, otherwise)
            case ast.Assign([target], value) if statement.lineno in self.wanted:
                return syntax.Assign(_said(target), _said(value))
            case ast.AugAssign(target, _, value) if statement.lineno in self.wanted:
                whole = ast.BinOp(target, statement.op, value)
                return syntax.Assign(_said(target), _said(whole))
        return None


def _given_by(statement: syntax.Stmt) -> Iterator[str]:
    """The variables that a statement gives values, or other items, to."""
    for node in syntax.walk(statement):
        match node:
            case syntax.Assign(syntax.Name(name)) | syntax.Assign(syntax.Subscript(syntax.Name(name))):
                yield name


@cache
def _definition(file: str, line: int, function: FunctionType) -> ast.FunctionDef:
    """The definition of a function, with the lines of its file.

    Raises:
        NoNumbers: its source is not to be had.
    """
    try:
        tree = ast.parse("".join(inspect.findsource(function)[0]))
    except (OSError, TypeError, SyntaxError):
        raise NoNumbers from None
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name, decorator_list=decorators) if name == function.__name__:
                if line == min([node.lineno, *(each.lineno for each in decorators)]):
                    return node
    raise NoNumbers


def _is_at(node: ast.If, test: OriginalTest) -> bool:
    return node.test.lineno == test.line and ast.unparse(node.test) == test.text


def _names(node: ast.AST) -> set[str]:
    """The variables that an expression reads, but for those of its comprehensions."""
    inside = {
        each.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.comprehension)
        for each in ast.walk(inner.target)
        if isinstance(each, ast.Name)
    }
    called = {name for inner in ast.walk(node) if isinstance(inner, ast.Call) and (name := _function_in(inner.func))}
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} - inside - called


def _function_in(called: ast.expr) -> str:
    """The function of Python's that is called; empty for others."""
    return called.id if isinstance(called, ast.Name) and called.id in _FUNCTIONS else ""


def _bindings(
    block: Sequence[ast.stmt], name: str, tests: tuple[ast.expr, ...] = ()
) -> Iterator[tuple[ast.stmt, tuple[ast.expr, ...]]]:
    """The statements that give a name a value, each with the tests around it.

    Raises:
        NoNumbers: one stands in a loop, or in something else that is no branch.
    """
    for statement in block:
        if not _gives(statement, name):
            continue
        match statement:
            case ast.If(test, body, orelse) if not _gives(test, name):
                yield from _bindings(body, name, (*tests, test))
                yield from _bindings(orelse, name, (*tests, test))
            case _:
                yield statement, tests


def _gives(node: ast.AST, name: str) -> bool:
    """Whether a statement, or one in it, gives a name a value, or what it holds another item."""
    for inner in ast.walk(node):
        match inner:
            case ast.Name(found, ast.Store() | ast.Del()) if found == name:
                return True
        if _changes(inner, name):
            return True
    return False


def _changes(node: ast.AST, name: str) -> bool:
    """Whether a node gives what a name holds another item: also by a method, ``dims.append(1)``."""
    match node:
        case ast.Subscript(ast.Name(found), _, ast.Store() | ast.Del()) | ast.AugAssign(ast.Name(found)):
            return found == name
        case ast.Call(ast.Attribute(ast.Name(found), method)):
            return found == name and method not in _METHODS
    return False


def _said(node: ast.expr) -> syntax.Expr:
    """An expression in our nodes, its variables called as ours are."""
    try:
        made = syntax.parsed(ast.unparse(node))
    except (SyntaxError, KeyError):
        raise NoNumbers from None

    def of(each: syntax.Node) -> syntax.Node:
        return syntax.Name(own_name(each.id)) if isinstance(each, syntax.Name) and each.id not in _FUNCTIONS else each

    return syntax.transformed(made, of)
