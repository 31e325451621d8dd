"""Rewrite ``continue`` and early ``return`` as plain branches, so that the skipped code is a branch like any other."""

from __future__ import annotations

import ast
from itertools import count

_LEFT = "__left"
_RETURNED = "__returned"


def jumps_lowered(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Rewrite a function's body without jumps out of branches, where possible; statements keep their line numbers.

    ``if a: continue`` followed by more becomes ``left = False``, ``if a: left = True``, ``if not left: …``.
    ``if a: return x`` becomes ``if a: returned = x``, ``else: …; returned = y``, ``return returned``.
    """
    lowering = _Lowering()
    made = [lowering.visit(statement) for statement in statements]
    returned = _returns(made)
    return made if returned is None else [*returned, *_parsed(f"return {_RETURNED}", made[-1])]


class _Lowering(ast.NodeTransformer):
    def __init__(self) -> None:
        self.numbers = count()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        if _jumps(node.body, ast.Continue) and not _jumps(node.body, ast.Break) and not node.orelse:
            name = f"{_LEFT}_{next(self.numbers)}"
            node.body = [*_parsed(f"{name} = False", node), *_continued(node.body, name)]
        return node


def _continued(statements: list[ast.stmt], name: str) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for number, statement in enumerate(statements):
        if isinstance(statement, ast.Continue):
            return [*made, *_parsed(f"{name} = True", statement)]
        made.append(statement)
        if isinstance(statement, ast.If) and _jumps([statement], ast.Continue):
            statement.body = _continued(statement.body, name)
            statement.orelse = _continued(statement.orelse, name)
            rest = _continued(statements[number + 1 :], name)
            if rest:
                [following] = _parsed(f"if not {name}: pass", statement)
                following.body = rest  # type: ignore[attr-defined]
                made.append(following)
            return made
    return made


def _jumps(statements: list[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Whether statements contain a jump that does not belong to an inner loop or function."""
    for statement in statements:
        if isinstance(statement, kind):
            return True
        if not isinstance(statement, ast.For | ast.While | ast.FunctionDef | ast.ClassDef):
            blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
            if any(_jumps(block, kind) for block in blocks):
                return True
    return False


def _returns(statements: list[ast.stmt]) -> list[ast.stmt] | None:
    """Assign the returned value to a variable in every branch; None where there is no early return to lower."""
    if not statements or not isinstance(statements[-1], ast.Return):
        return None
    early = any(isinstance(node, ast.Return) for statement in statements[:-1] for node in ast.walk(statement))
    return _returned(statements) if early else None


def _returned(statements: list[ast.stmt]) -> list[ast.stmt] | None:
    made: list[ast.stmt] = []
    for number, statement in enumerate(statements):
        if isinstance(statement, ast.Return):
            [kept] = _parsed(f"{_RETURNED} = None", statement)
            kept.value = statement.value or ast.copy_location(ast.Constant(None), statement)  # type: ignore[attr-defined]
            return [*made, kept]
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            if not isinstance(statement, ast.If):
                return None
            rest = statements[number + 1 :]
            then, otherwise = _returned([*statement.body, *rest]), _returned([*statement.orelse, *rest])
            if then is None or otherwise is None:
                return None
            branch = ast.copy_location(ast.If(statement.test, then, otherwise), statement)
            return [*made, branch]
        made.append(statement)
    return None


def _parsed(line: str, where: ast.stmt) -> list[ast.stmt]:
    """Parse a line of source, and give it another statement's position."""
    made = ast.parse(line).body
    for statement in made:
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt | ast.expr):
                ast.copy_location(node, where)
                node.end_lineno, node.end_col_offset = where.lineno, where.col_offset
    return made
