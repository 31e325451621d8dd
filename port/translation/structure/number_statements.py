"""The original's statements on plain numbers that compute a function's condition.

Where some calls of a function take a branch and others do not, the written function keeps the condition, and before it
the statements that compute its operands: ``shift = shift.copy()``, ``if window >= H: shift[0] = 0``,
``if sum(shift) > 0:``.
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
    """A condition depends on something other than plain numbers."""


@dataclass(frozen=True)
class NumberStatement:
    """A statement of the original that computes numbers.

    Attributes:
        line: its line in the file.
        statement: in our syntax nodes.
        read: the variables that it reads, by their names in the written code.
        assigned: the variables that it assigns.
    """

    line: int
    statement: syntax.Stmt
    read: frozenset[str]
    assigned: frozenset[str]


@dataclass(frozen=True)
class AskedNumbers:
    """A condition, with the statements that it needs before it.

    Attributes:
        test: the condition.
        read: the variables that it reads, by their names in the written code.
        before: the statements that compute them, in the original's order.
    """

    test: syntax.Expr
    read: frozenset[str]
    before: tuple[NumberStatement, ...] = ()


def asked_by(
    function: FunctionType, test: OriginalTest, known: Collection[str], tensors: Collection[str]
) -> AskedNumbers:
    """Collect a test of a function with the statements that compute its operands.

    Args:
        function: the original's function.
        test: the test of one of its branches.
        known: variables whose values the written function has in any case: named lengths.
        tensors: the parameters that receive something other than plain numbers.

    Raises:
        NoNumbers: the test depends on something else.
    """
    return _Reading(function, frozenset(known), frozenset(tensors)).asked(test)


class _Reading:
    def __init__(self, function: FunctionType, known: frozenset[str], tensors: frozenset[str]) -> None:
        self.definition = _definition(function.__code__.co_filename, function.__code__.co_firstlineno, function)
        arguments = self.definition.args
        self.parameters = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
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

    # %% What a condition needs

    def _need_all(self, node: ast.expr, line: int) -> None:
        """Mark the assignments of an expression's variables as needed.

        Args:
            node: the expression.
            line: the line of the expression.

        Raises:
            NoNumbers: one of them is not a statement on plain numbers.
        """
        for name in self._plain_names(node):
            self._need(name, line)

    def _plain_names(self, node: ast.expr) -> set[str]:
        """The names that an expression of plain numbers reads, except those that are only compared with None."""
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
            if len(found) == 1:  # its length comes from the shape
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
        """Whether a variable's value is changed through another name: ``other = shift; other[0] = 0``."""
        others = set()
        for node in ast.walk(self.definition):
            match node:
                case ast.Assign(targets, ast.Name(source)):
                    names = {source, *(target.id for target in targets if isinstance(target, ast.Name))}
                    others |= names - {name} if name in names else set()
        return any(
            _changes(node, other)
            for other in others
            for node in ast.walk(self.definition)
            if isinstance(node, ast.Subscript | ast.AugAssign | ast.Call)
        )

    # %% Conversion to our statements

    def _statements(self, block: Sequence[ast.stmt], end: int) -> Iterator[NumberStatement]:
        for statement in block:
            if statement.lineno >= end:
                break
            made = self._statement(statement)
            if made is not None:
                read = {node.id for node in syntax.walk(made) if isinstance(node, syntax.Name)} - _FUNCTIONS
                yield NumberStatement(statement.lineno, made, frozenset(read), frozenset(_assigned_by(made)))

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


def _assigned_by(statement: syntax.Stmt) -> Iterator[str]:
    """The variables that a statement assigns, or whose items it assigns."""
    for node in syntax.walk(statement):
        match node:
            case syntax.Assign(syntax.Name(name)) | syntax.Assign(syntax.Subscript(syntax.Name(name))):
                yield name


@cache
def _definition(file: str, line: int, function: FunctionType) -> ast.FunctionDef:
    """A function's definition, with the line numbers of its file.

    Raises:
        NoNumbers: its source is not available.
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
    """The variables that an expression reads, except those of its comprehensions."""
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
    """The builtin function that is called; empty for others."""
    return called.id if isinstance(called, ast.Name) and called.id in _FUNCTIONS else ""


def _bindings(
    block: Sequence[ast.stmt], name: str, tests: tuple[ast.expr, ...] = ()
) -> Iterator[tuple[ast.stmt, tuple[ast.expr, ...]]]:
    """Yield the statements that assign a name, each with the tests around it.

    Raises:
        NoNumbers: one is in a loop, or in some other block that is no branch.
    """
    for statement in block:
        if not _assigns(statement, name):
            continue
        match statement:
            case ast.If(test, body, orelse) if not _assigns(test, name):
                yield from _bindings(body, name, (*tests, test))
                yield from _bindings(orelse, name, (*tests, test))
            case _:
                yield statement, tests


def _assigns(node: ast.AST, name: str) -> bool:
    """Whether a statement, or one inside it, assigns a name or an item of its value."""
    for inner in ast.walk(node):
        match inner:
            case ast.Name(found, ast.Store() | ast.Del()) if found == name:
                return True
        if _changes(inner, name):
            return True
    return False


def _changes(node: ast.AST, name: str) -> bool:
    """Whether a node changes an item of a name's value, also by a method: ``dims.append(1)``."""
    match node:
        case ast.Subscript(ast.Name(found), _, ast.Store() | ast.Del()) | ast.AugAssign(ast.Name(found)):
            return found == name
        case ast.Call(ast.Attribute(ast.Name(found), method)):
            return found == name and method not in _METHODS
    return False


def _said(node: ast.expr) -> syntax.Expr:
    """An expression in our syntax nodes, with the written code's names of variables."""
    try:
        made = syntax.parsed(ast.unparse(node))
    except (SyntaxError, KeyError):
        raise NoNumbers from None

    def of(each: syntax.Node) -> syntax.Node:
        return syntax.Name(own_name(each.id)) if isinstance(each, syntax.Name) and each.id not in _FUNCTIONS else each

    return syntax.transformed(made, of)
