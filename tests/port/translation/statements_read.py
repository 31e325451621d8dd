"""Statements' text as nodes, for tests: the translator itself reads expressions alone."""

from __future__ import annotations

import ast

from port.translation.ir import syntax
from port.translation.ir.syntax import parsed


def statements(text: str) -> list[syntax.Stmt]:
    """The statements of a text: what is assigned, called, given; branches and loops."""
    return [_statement(tree) for tree in ast.parse(text).body]


def _statement(tree: ast.stmt) -> syntax.Stmt:
    match tree:
        case ast.Assign(targets=[target], value=value):
            return syntax.Assign(_expression(target), _expression(value))
        case ast.Expr(value=value):
            return syntax.ExprStmt(_expression(value))
        case ast.Return(value=ast.expr() as value):
            return syntax.Return(_expression(value))
        case ast.If(test=test, body=body, orelse=orelse):
            return syntax.If(_expression(test), _all(body), _all(orelse))
        case ast.For(target=target, iter=items, body=body):
            return syntax.For(_expression(target), _expression(items), _all(body))
        case ast.FunctionDef(name=name, args=arguments, body=body):
            return syntax.FunctionDef(name, tuple(syntax.Parameter(each.arg) for each in arguments.args), _all(body))
    raise AssertionError(f"no test reads this: {ast.unparse(tree)}")


def _all(trees: list[ast.stmt]) -> tuple[syntax.Stmt, ...]:
    return tuple(map(_statement, trees))


def _expression(tree: ast.expr) -> syntax.Expr:
    return parsed(ast.unparse(tree))
