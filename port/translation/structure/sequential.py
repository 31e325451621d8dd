"""A torch.nn.Sequential's call as the list of what it calls, one after the other."""

from __future__ import annotations

import ast
from typing import Any

from port.translation.ir.expr import HELD, VALUE, ref, renamed, values_in
from port.translation.ir.graph import each_value
from port.translation.ir.lowered import Assignment
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.body import Bodies
from port.translation.structure.call_tree import Call, Repeated
from port.translation.structure.scope import Unreachable

IDENTITY = "jax.nn.identity"


def elements(call: Call, tree: ModuleTree, bodies: Bodies) -> dict[str, ast.expr | None]:
    """What a Sequential's children are called as: names of children → a function, or None for the child itself.

    Raises:
        Unreachable: it is no plain chain of one array.
    """
    names = list(tree.modules[call.path]._modules)
    found: dict[str, ast.expr | None] = dict.fromkeys(names, ast.parse(IDENTITY, mode="eval").body)
    given = [value for value in call.parameters.values() if isinstance(value, ast.Name)]
    if len(given) != 1 or len(call.parameters) != 1:
        raise Unreachable(call.path, "is called with more than one array")
    before: ast.expr = given[0]
    for item in call.items:
        before, name, element = _element(call, item, before, tree, bodies)
        if name not in names or found[name] is None:
            raise Unreachable(call.path, "does something between its children")
        found[name] = element
    if not isinstance(call.results, ast.Name) or ast.dump(call.results) != ast.dump(before):
        raise Unreachable(call.path, "gives something else than its last child")
    return found


def _element(
    call: Call, item: Any, before: ast.expr, tree: ModuleTree, bodies: Bodies
) -> tuple[ast.expr, str, ast.expr | None]:
    """What comes out of one child, its name, and what it is called as."""
    assert isinstance(before, ast.Name)
    if isinstance(item, Repeated):
        raise Unreachable(call.path, "calls a child again and again")
    if isinstance(item, Assignment):
        results = list(each_value(item.results))
        if item.path is None or len(results) != 1 or values_in(item.expression) != [before.id[1:]]:
            raise Unreachable(call.path, "does something between its children")
        element = None if _calls_held(item.expression) else as_function(item.expression, before.id)
        return ref(results[0]), _child(call.path, item.path), element
    given = [value for value in item.parameters.values() if isinstance(value, ast.expr) and values_in(value)]
    if not isinstance(item.results, ast.Name) or [ast.dump(value) for value in given] != [ast.dump(before)]:
        raise Unreachable(call.path, "its children take or give more than one array")
    name = _child(call.path, item.path)
    if _is_stateless(tree.modules[item.path]):
        return item.results, name, _inline(call, item, before)
    if len(bodies[item.path].parameters) != 1:
        raise Unreachable(call.path, "its children take something else")
    return item.results, name, None


def as_function(expression: ast.expr, argument: str) -> ast.expr:
    """A function of one array: its name, a partial of it, or a lambda."""
    match expression:
        case ast.Call(func=func, args=[ast.Name(id=name)], keywords=keywords) if name == argument:
            if not any(values_in(keyword) for keyword in keywords):
                return func if not keywords else ast.Call(ast.Name("partial"), [func], keywords)
    body = renamed(expression, lambda node: ast.Name("x") if node.id == argument else node)
    only = ast.arguments([], [ast.arg("x")], None, [], [], None, [])
    return ast.Lambda(only, body)


def _inline(call: Call, item: Call, before: ast.Name) -> ast.expr:
    """A child that holds nothing, written out."""
    expression: ast.expr = item.results
    for step in reversed(item.items):
        if not isinstance(step, Assignment) or len(step.results) != 1:
            raise Unreachable(call.path, "a child without weights does more than one thing")
        made = step.results[0]

        def of(node: ast.Name, made: Any = made, by: ast.expr = step.expression) -> ast.expr:
            return by if node.id == f"{VALUE}{made.name}" else node

        expression = renamed(expression, of)
    if set(values_in(expression)) - {before.id[1:]} or _calls_held(expression):
        raise Unreachable(call.path, "a child without weights reads something else")
    if isinstance(expression, ast.Name):
        return ast.parse(IDENTITY, mode="eval").body
    return as_function(expression, before.id)


def _is_stateless(module: Any) -> bool:
    return type(module).__module__.startswith("torch.nn.") and not any(True for _ in module.children())


def _calls_held(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id.startswith(HELD) for node in ast.walk(expression))


def _child(path: str, inner: str) -> str:
    return inner[len(path) + 1 :] if path else inner
