"""A torch.nn.Sequential's call as the list of its elements."""

from __future__ import annotations

from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code, ref, renamed, values_in
from port.translation.ir.graph import each_value
from port.translation.ir.lowered import Assignment
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.call_tree import FunctionCall, ModuleCall, Repeated
from port.translation.structure.inline_dce import with_inlined
from port.translation.structure.unreachable import Unreachable
from port.translation.structure.written_body import Bodies

IDENTITY = "jax.nn.identity"


def elements(call: ModuleCall, tree: ModuleTree, bodies: Bodies) -> dict[str, syntax.Expr | None]:
    """The elements of a Sequential: child name → a function, or None for the child itself.

    Raises:
        Unreachable: it is not a plain chain with one array.
    """
    names = list(tree.modules[call.path]._modules)
    found: dict[str, syntax.Expr | None] = dict.fromkeys(names, code(IDENTITY))
    arrays = [value for value in call.parameters.values() if isinstance(value, syntax.Use)]
    if len(arrays) != 1 or len(call.parameters) != 1:
        raise Unreachable(call.path, "is called with more than one array")
    before = arrays[0]
    for item in call.items:
        before, name, element = _element(call, item, before, tree, bodies)
        if name not in names or found[name] is None:
            raise Unreachable(call.path, "does something between its children")
        found[name] = element
    if call.results != before:
        raise Unreachable(call.path, "returns something other than its last child's output")
    return found


def _element(
    call: ModuleCall, item: Any, before: syntax.Use, tree: ModuleTree, bodies: Bodies
) -> tuple[syntax.Use, str, syntax.Expr | None]:
    """One element: its output, the child's name, and the function that replaces the child (or None)."""
    if isinstance(item, Repeated):
        raise Unreachable(call.path, "calls a child in a loop")
    if isinstance(item, FunctionCall):
        raise Unreachable(call.path, "does something between its children")
    if isinstance(item, Assignment):
        results = list(each_value(item.results))
        if item.path is None or len(results) != 1 or values_in(item.expression) != [before.name]:
            raise Unreachable(call.path, "does something between its children")
        element = None if _calls_held(item.expression) else as_function(item.expression, before)
        return ref(results[0]), _child(call.path, item.path), element
    arrays = [value for value in item.parameters.values() if isinstance(value, syntax.Expr) and values_in(value)]
    if not isinstance(item.results, syntax.Use) or arrays != [before]:
        raise Unreachable(call.path, "its children take or return more than one array")
    name = _child(call.path, item.path)
    if _is_stateless(tree.modules[item.path]):
        return item.results, name, _inline(call, item, before)
    if len(bodies[item.path].parameters) != 1:
        raise Unreachable(call.path, "its children take something else")
    return item.results, name, None


def as_function(expression: syntax.Expr, argument: syntax.Use) -> syntax.Expr:
    """A function of one array: its name, a partial, or a lambda."""
    match expression:
        case syntax.Call(func, (value,), keywords) if value == argument and not values_in(*keywords):
            return func if not keywords else syntax.Call(syntax.Name("partial"), (func,), keywords)
    return syntax.Lambda(("x",), renamed(expression, lambda node: syntax.Name("x") if node == argument else node))


def _inline(call: ModuleCall, item: ModuleCall, before: syntax.Use) -> syntax.Expr:
    """Inline a child without parameters."""
    expression: syntax.Expr = item.results
    for step in reversed(item.items):
        if not isinstance(step, Assignment) or len(step.results) != 1:
            raise Unreachable(call.path, "a child without weights does more than one thing")
        made = step.results[0]

        expression = with_inlined(expression, {made.name: step.expression})
    if set(values_in(expression)) - {before.name} or _calls_held(expression):
        raise Unreachable(call.path, "a child without weights reads something else")
    if isinstance(expression, syntax.Use):
        return code(IDENTITY)
    return as_function(expression, before)


def _is_stateless(module: Any) -> bool:
    return type(module).__module__.startswith("torch.nn.") and not any(True for _ in module.children())


def _calls_held(expression: syntax.Expr) -> bool:
    return any(isinstance(node, syntax.Attr) for node in syntax.walk(expression))


def _child(path: str, inner: str) -> str:
    return inner[len(path) + 1 :] if path else inner
