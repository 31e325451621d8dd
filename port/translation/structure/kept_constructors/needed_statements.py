"""Which statements of a constructor's source are needed for what the written module holds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator


def with_needed(definition: ast.FunctionDef, attributes: set[str], methods: set[str]) -> ast.FunctionDef:
    """A function without the statements that nothing needs.

    The order of statements is not looked at: what assigns a name that is read anywhere stays.

    Args:
        definition: of the function.
        attributes: those of ``self`` that are needed; what is read in the statements that stay is taken in.
        methods: those of ``self`` that make some of these.
    """
    own = own_names(definition)
    names: set[str] = set()
    kept: set[ast.stmt] = set()
    while True:
        before = len(names), len(attributes), len(kept)
        for statement in definition.body:
            _look(statement, names, attributes, methods, kept)
            names &= own
        if before == (len(names), len(attributes), len(kept)):
            break
    definition.body = _only(definition.body, kept)
    return definition


def _look(statement: ast.stmt, names: set[str], attributes: set[str], methods: set[str], kept: set[ast.stmt]) -> bool:
    """Take in a statement if it is needed, and what it reads."""
    inside = [part for block in blocks_of(statement) for part in block]
    if inside:
        looked = [_look(part, names, attributes, methods, kept) for part in inside]  # at all of them
        needed = any(looked)
        needed = needed or (isinstance(statement, ast.FunctionDef) and statement.name in names)
    else:
        needed = _is_needed(statement, names, attributes, methods)
    if needed:
        kept.add(statement)
        if isinstance(statement, ast.FunctionDef):
            kept.update(inside)
        _take_reads(_head(statement), names, attributes)
    return needed


def _is_needed(statement: ast.stmt, names: set[str], attributes: set[str], methods: set[str]) -> bool:
    match statement:
        case ast.Return(value=value):
            return value is not None
        case ast.Raise() | ast.Assert():
            return True
        case ast.Continue() | ast.Break() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method)) as call):
            if _is_super(owner):
                return True
            if method.endswith("_") and not method.startswith("_"):
                return False  # of a tensor's numbers: how these start, the construction has shown
            if _is_self(owner):
                if method in ("register_buffer", "register_parameter"):
                    return any(isinstance(each, ast.Constant) and each.value in attributes for each in call.args[:1])
                return method in ("add_module", "append", "extend", "insert", "update") or method in methods
            return _is_any(owner, names, attributes)
        case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[owner, *_])):
            return _is_self(owner) or _is_any(owner, names, attributes)
        case ast.Assign(targets=targets):
            return any(_is_any(target, names, attributes) for target in targets)
        case ast.AnnAssign(target=target, value=value):
            return value is not None and _is_any(target, names, attributes)
        case ast.AugAssign(target=target):
            return _is_any(target, names, attributes)
    return False


def _is_any(target: ast.expr, names: set[str], attributes: set[str]) -> bool:
    """Whether what is assigned, or changed, is needed."""
    match target:
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return any(_is_any(item, names, attributes) for item in items)
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(value=owner, attr=name) if _is_self(owner):
            return name in attributes
        case ast.Attribute(attr="data"):
            return False  # a tensor's numbers
        case ast.Attribute(value=inside) | ast.Subscript(value=inside) | ast.Starred(value=inside):
            return _is_any(inside, names, attributes)
        case ast.Call(func=function):
            return _is_any(function, names, attributes)
    return False


def _head(statement: ast.stmt) -> Iterator[ast.AST]:
    """What a statement reads itself, without the statements in it."""
    if isinstance(statement, ast.FunctionDef):
        yield from statement.body
        return
    for name, value in ast.iter_fields(statement):
        if name in ("body", "orelse", "finalbody", "handlers"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield part


def _take_reads(trees: Iterable[ast.AST], names: set[str], attributes: set[str]) -> None:
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=owner, attr=name) if _is_self(owner):
                    attributes.add(name)
                case ast.Name(id=name, ctx=ast.Load()) if name != "self":
                    names.add(name)


def _only(statements: list[ast.stmt], kept: set[ast.stmt]) -> list[ast.stmt]:
    made = [statement for statement in statements if statement in kept]
    for statement in made:
        if isinstance(statement, ast.FunctionDef):
            continue
        for block in blocks_of(statement):
            block[:] = _only(block, kept)
        if not getattr(statement, "body", True):
            statement.body = [ast.Pass()]  # type: ignore[attr-defined]
    return made


def blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The lists of statements in one: of a loop its body, of an ``if`` its branches."""
    found = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    found += [handler.body for handler in getattr(statement, "handlers", [])]
    return [block for block in found if block]


def attributes_assigned(definition: ast.FunctionDef) -> set[str]:
    """The attributes of ``self`` that a function makes."""
    found = set()
    for node in ast.walk(definition):
        match node:
            case ast.Attribute(value=owner, attr=name, ctx=ast.Store()) if _is_self(owner):
                found.add(name)
            case ast.Call(
                func=ast.Attribute(value=owner, attr="register_buffer" | "register_parameter" | "add_module"),
                args=[ast.Constant(value=str(name)), *_],
            ) if _is_self(owner):
                found.add(name)
    return found


def own_names(definition: ast.FunctionDef) -> set[str]:
    """The names of a function's own: its parameters, and what is assigned in it."""
    own = {node.arg for node in ast.walk(definition.args) if isinstance(node, ast.arg)}
    names = (node for node in ast.walk(definition) if isinstance(node, ast.Name))
    return own | {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
