"""Classes of the original that are no modules, such as configurations of blocks."""

from __future__ import annotations

import ast
import copy
from typing import Any

from port.translation.frontend.construction.function_trees import source_tree
from port.translation.ir import syntax
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.names import NOTHING, Names


def class_definition(cls: type, names: Names, read: set[str]) -> syntax.Lines:
    """Translate a class from its source, without docstrings, annotations and methods that are never called.

    Args:
        cls: the class.
        names: resolves names from outside the class.
        read: names of attributes that are read anywhere; grows by those that the class itself reads.

    Raises:
        CannotKeep: it reads something without a source form.
    """
    match copy.deepcopy(source_tree(cls)).body:
        case [ast.ClassDef() as tree]:
            pass
        case _:
            raise CannotKeep(f"the source of {cls.__qualname__} cannot be read")
    tree.body = [each for each in tree.body if not isinstance(each, ast.FunctionDef) or _is_needed(each.name, read)]
    writing = _Writing(cls, names)
    made = writing.visit(tree)
    return syntax.Lines(ast.unparse(ast.fix_missing_locations(made)), tuple(writing.parts))


class _Writing(ast.NodeTransformer):
    def __init__(self, cls: type, names: Names) -> None:
        self.cls, self.names = cls, names
        self.parts: list[syntax.Expr] = []
        self.own: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = _without_docstring(node.body)
        node.bases = [self.visit(base) for base in node.bases]
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        before = self.own
        self.own = before | {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        self.own |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and _is_bound(each)}
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        node.args.defaults = [self.visit(each) for each in node.args.defaults]
        node.returns = None
        node.body = [self.visit(statement) for statement in _without_docstring(node.body)]
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        self.own = before
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Name("Any", ast.Load())
        node.value = node.value and self.visit(node.value)
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        return self._named(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if self.names.stands_for(node, self.cls, self.own) is NOTHING:
            node.value = self.visit(node.value)
            return node
        return self._named(node)

    def _named(self, node: ast.Name | ast.Attribute) -> ast.expr:
        thing = self.names.stands_for(node, self.cls, self.own)
        if thing is NOTHING or not isinstance(node.ctx, ast.Load):
            return node
        made = self.names.written(node, thing, self.cls, self.own)
        if made is None or made == syntax.Name(getattr(node, "id", "")):
            return node
        self.parts.append(made)
        return ast.Name(f"_part{len(self.parts) - 1}_", ast.Load())


def _is_needed(method: str, read: set[str]) -> bool:
    return method in read or (method.startswith("__") and method.endswith("__"))


def _is_bound(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest or [ast.Pass()]
    return body
