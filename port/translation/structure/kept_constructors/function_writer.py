"""Translate functions used by constructors: the statements that are needed."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from types import FunctionType

from port.translation.frontend.construction.function_trees import calls_of, definition_of
from port.translation.ir import syntax
from port.translation.structure.kept_constructors.also_written import is_own_function
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.comments import take_comments
from port.translation.structure.kept_constructors.known import Known, Owner
from port.translation.structure.kept_constructors.needed_statements import Reads, attributes_assigned, with_needed
from port.translation.structure.kept_constructors.statement_writer import StatementWriter
from port.translation.structure.kept_constructors.table_source import TableSource, table_sources


def body_of(function: FunctionType, known: Known, owner: Owner | None = None) -> syntax.Lines | None:
    """Translate the statements of a function that are needed.

    Raises:
        CannotKeep: one of them cannot be translated.
    """
    definition = definition_of(function)
    if definition is None:
        raise CannotKeep(f"the source of {function.__qualname__} cannot be read")
    own = copy.deepcopy(definition)
    take_comments(function, own)
    for number, node in enumerate(calls_of(own)):
        node.number = number  # type: ignore[attr-defined]
    if isinstance(own.body[0], ast.Expr) and isinstance(own.body[0].value, ast.Constant):
        del own.body[0]
    tables: dict[str, TableSource] = {}
    if owner is not None:
        tables = table_sources(own, function, known, owner)
        tensors = {
            name: tables[name].reads if name in tables else _read_by(starts, function, known)
            for name, starts in owner.tensors.items()
        }
        own = with_needed(own, owner.attributes, _methods_that_make(owner, known), tensors, owner.instances)
    writing = StatementWriter(known, function, own, owner)
    writing.tables = tables
    statements = writing.block(own.body)
    if not statements:
        return None
    bare = (_WithoutParentheses().visit(statement) for statement in statements)
    text = "\n".join(ast.unparse(ast.fix_missing_locations(statement)) for statement in bare)
    return syntax.Lines(text, tuple(writing.parts))


class _WithoutParentheses(ast.NodeTransformer):
    """Removes parentheses that `ast.unparse` adds: ``a, b = c, d``, ``x ** -0.5``, ``sum(x for x in y)``."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        node.value = _bare_tuple(node.value)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        node.value = node.value and _bare_tuple(node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        match node.op, node.right:
            case ast.Pow(), ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                node.right = ast.Constant(-number)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.args, node.keywords:
            case [ast.GeneratorExp() as only], []:
                node.args = [ast.Name(ast.unparse(only)[1:-1], ast.Load())]
        return node


def _bare_tuple(value: ast.expr) -> ast.expr:
    if not isinstance(value, ast.Tuple) or len(value.elts) < 2:
        return value
    return ast.Name(", ".join(map(ast.unparse, value.elts)), ast.Load())


def _read_by(starts: Iterable[syntax.Expr], function: FunctionType, known: Known) -> Reads:
    """What a function reads where it creates a tensor, in its written form."""
    reads = Reads()
    for start in starts:
        for node in syntax.walk(known.forms.said_in(function, start)):
            if isinstance(node, syntax.Hole):
                reads.take(ast.parse(node.name, mode="eval"))
    return reads


def _methods_that_make(owner: Owner, known: Known) -> set[str]:
    found = set()
    for name in dir(owner.original):
        method = getattr(owner.original, name, None)
        if isinstance(method, FunctionType) and is_own_function(method) and not name.startswith("__"):
            several = (method, *known.in_its_place(method))
            reached = [each for each in several if any(place[0] is each for place in known.calls.reached)]
            if any(known.takes_options(each) or _assigns(each) & owner.attributes for each in reached):
                found.add(name)
    return found


def _assigns(function: FunctionType) -> set[str]:
    definition = definition_of(function)
    return set() if definition is None else attributes_assigned(definition)
