"""Parse Python expressions (templates and formulas) into nodes."""

from __future__ import annotations

import ast
from collections.abc import Collection

from port.translation.ir.syntax import expressions as e
from port.translation.ir.syntax.node import Expr
from port.translation.ir.syntax.operators import OF_BOOLS, OF_COMPARISONS, OF_ONE, OF_TWO


def parsed(text: str, holes: Collection[str] = ()) -> Expr:
    """Parse an expression.

    Args:
        text: a Python expression.
        holes: the names in it that become holes.

    Raises:
        SyntaxError: the text is not an expression, or of a kind that has no node.
    """
    return _Reader(frozenset(holes)).expression(ast.parse(text, mode="eval").body)


class _Reader:
    def __init__(self, holes: frozenset[str]) -> None:
        self.holes = holes

    def expression(self, tree: ast.expr) -> Expr:
        match tree:
            case ast.Name(id=name):
                return e.Hole(name) if name in self.holes else e.Name(name)
            case ast.Constant(value=value):
                return e.Const(value)
            case ast.Attribute(value=value, attr=name):
                return e.Attribute(self.expression(value), name)
            case ast.Subscript(value=value, slice=index):
                return e.Subscript(self.expression(value), self.expression(index))
            case ast.Slice(lower=lower, upper=upper, step=step):
                return e.Slice(self.maybe(lower), self.maybe(upper), self.maybe(step))
            case ast.Call(func=func, args=args, keywords=keywords):
                named = tuple(e.Keyword(keyword.arg, self.expression(keyword.value)) for keyword in keywords)
                return e.Call(self.expression(func), self.all(args), named)
            case ast.Starred(value=value):
                return e.Starred(self.expression(value))
            case ast.Tuple(elts=items):
                return e.Tuple(self.all(items))
            case ast.List(elts=items):
                return e.List(self.all(items))
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return e.Dict(self.all([key for key in keys if key is not None]), self.all(values))
            case ast.UnaryOp(op=op, operand=operand):
                return e.UnaryOp(OF_ONE[type(op)], self.expression(operand))
            case ast.BinOp(left=left, op=operator, right=right):
                return e.BinOp(self.expression(left), OF_TWO[type(operator)], self.expression(right))
            case ast.BoolOp(op=word, values=values):
                return e.BoolOp(OF_BOOLS[type(word)], self.all(values))
            case ast.Compare(left=left, ops=ops, comparators=others):
                signs = tuple(OF_COMPARISONS[type(sign)] for sign in ops)
                return e.Compare(self.expression(left), signs, self.all(others))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return e.IfExp(self.expression(test), self.expression(body), self.expression(orelse))
            case ast.Lambda(args=ast.arguments([], names, None, [], [], None, []), body=body):
                return e.Lambda(tuple(name.arg for name in names), self.expression(body))
            case ast.ListComp(elt=item, generators=generators):
                return e.ListComp(self.expression(item), self.comprehensions(generators))
            case ast.GeneratorExp(elt=item, generators=generators):
                return e.GeneratorExp(self.expression(item), self.comprehensions(generators))
        raise SyntaxError(f"{ast.unparse(tree)} is an expression of a kind that has no node")

    def maybe(self, tree: ast.expr | None) -> Expr | None:
        return None if tree is None else self.expression(tree)

    def all(self, trees: list[ast.expr]) -> tuple[Expr, ...]:
        return tuple(map(self.expression, trees))

    def comprehensions(self, trees: list[ast.comprehension]) -> tuple[e.Comprehension, ...]:
        return tuple(
            e.Comprehension(self.expression(tree.target), self.expression(tree.iter), self.all(tree.ifs))
            for tree in trees
        )
