"""A loop as source: a function that does one round, and `jax.lax.scan` of it.

Where a round changes the module, `nnx.scan` takes the module along: its parameters as they are, and all else from round
to round.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from port.translation.ir.expr import HELD, VALUE, code, named, values_in
from port.translation.ir.graph import each_value
from port.translation.ir.lowered import Scan
from port.translation.structure.inline_dce import Made, with_inlined
from port.translation.structure.list_append import list_name
from port.translation.structure.scope import Scope

_STEP = "step"
_MOST_TRIES = 5


def ends_of(scan: Scan) -> list[str]:
    """Names of the values that a round's results are made of."""
    return [name for expression in (*scan.next, *scan.given) for name in values_in(expression)]


def with_inlined_ends(scan: Scan, inline: dict[str, ast.expr]) -> Scan:
    """A loop with expressions in the place of values, in what a round gives."""
    after, given = (tuple(with_inlined(item, inline) for item in items) for items in (scan.next, scan.given))
    return replace(scan, next=after, given=given)


def made_of_loop(scan: Scan, rounds: list[Made]) -> Made:
    """A loop as a statement to be.

    Args:
        scan: the loop.
        rounds: what a round makes.
    """
    own = {value.name for value in (*scan.carried, *scan.sliced)}
    own |= {value.name for item in rounds for value in each_value(item.results)}
    reads = [name for item in rounds for name in item.reads] + ends_of(scan)
    expression = code(
        "jax.lax.scan(step, first, whole)", first=_one_or_several(scan.first), whole=_one_or_several(scan.whole)
    )
    assert isinstance(expression, ast.Call)
    if scan.length is not None:
        expression.keywords.append(ast.keyword("length", scan.length))
    if scan.reverse:
        expression.keywords.append(ast.keyword("reverse", ast.Constant(True)))
    results = (_one_or_several(scan.last), _one_or_several(scan.stacked))
    outside = tuple(dict.fromkeys(name for name in reads if name not in own))
    return Made(results, expression, None, scan=scan, rounds=rounds, inside=outside)


def written_loop(
    item: Made, scope: Scope, cls: type, statements: Callable[[Scope], list[ast.stmt]]
) -> tuple[ast.stmt, ast.expr]:
    """The function that does a round, and the expression that calls it.

    Args:
        item: the loop; what its results are to be called is noted down in it.
        scope: of the function around.
        cls: the original's, whose ``forward`` may call the list of what the rounds give by a name.
        statements: writes what a round does, in a scope.
    """
    scan, call = item.scan, item.expression
    assert scan is not None
    assert isinstance(call, ast.Call)
    hints = {value: name for made in item.rounds for value, name in made.names.items()}
    kept = {node.id for name in item.inside if name in scope.names for node in _names(scope.names[name])}
    for _ in range(_MOST_TRIES):
        inside = scope.function(kept)
        arguments = _arguments(scan, call, scope, inside, hints)
        body = [*arguments.unpacked, *statements(inside)]
        returned = _pair(scan.next, scan.given)
        body.append(ast.Return(inside.resolved(returned)))
        lost = inside.read_outside & {node.id for statement in body for node in _bound(statement)}
        lost |= inside.read_outside & {argument.arg for argument in arguments.taken}
        if not lost:
            break
        kept |= lost
    function = scope.called(_STEP, f"def {scan.last!r}{scan.stacked!r}")
    for last, argument in zip(scan.last, arguments.carried, strict=True):
        item.names[last.name] = argument
    for value, expression in zip(scan.stacked, scan.given, strict=True):
        item.names[value.name] = _list_name(expression, cls, hints)
    if not scan.stateful:
        definition = _defined(function, arguments.taken, body, scan)
        return definition, ast.Call(call.func, [function, *call.args[1:]], call.keywords)
    count = 2 if scan.sliced else 1
    definition = _defined(function, [ast.arg("self"), *arguments.taken[:count]], body, scan)
    definition.decorator_list = [_lifted(count, call.keywords)]
    return definition, ast.Call(function, [ast.Name("self"), *call.args[1 : 1 + count]], [])


def _defined(function: ast.Name, taken: list[ast.arg], body: list[ast.stmt], scan: Scan) -> ast.FunctionDef:
    arguments = ast.arguments([], taken, None, [], [], None, [])
    return ast.FunctionDef(function.id, arguments, body, [], _annotated(scan), lineno=0)  # type: ignore[call-arg]


def _lifted(count: int, options: list[ast.keyword]) -> ast.expr:
    """``nnx.scan``, where the module goes along."""
    axes = "nnx.Carry, 0" if count == 2 else "nnx.Carry"
    made = code(
        f"nnx.scan(in_axes=(nnx.StateAxes({{nnx.Param: None, ...: nnx.Carry}}), {axes}), out_axes=(nnx.Carry, 0))"
    )
    assert isinstance(made, ast.Call)
    made.keywords += options
    return made


class _Arguments:
    """What a round is given: the function's two arguments, and the statements that take them apart."""

    def __init__(self) -> None:
        self.taken: list[ast.arg] = []
        self.unpacked: list[ast.stmt] = []
        self.carried: list[str] = []


def _arguments(scan: Scan, call: ast.Call, scope: Scope, inside: Scope, hints: dict[str, str]) -> _Arguments:
    made = _Arguments()
    first, whole = (_several(argument) for argument in call.args[1:])
    firsts = [_called(each, scope) for each in first[: len(scan.first)]]
    afters = [_hint(after, hints) for after in scan.next]
    carried = [after or first or "state" for after, first in zip(afters, firsts, strict=True)]
    sliced = [
        f"{_called(each, scope) or 'x'}_t" if value.shape else "t"  # the number of a round
        for each, value in zip(whole, scan.sliced, strict=False)
    ]
    for group, wanted, together in ((scan.carried, carried, "carry"), (scan.sliced, sliced, "inputs")):
        names = [inside.called(name, value.name) for name, value in zip(wanted, group, strict=True)]
        if group is scan.carried:
            made.carried = [name.id for name in names]
        if len(names) == 1:
            made.taken.append(ast.arg(names[0].id, _annotation(group)))
        elif names:
            one = inside.called(together, f"{together} {names[0].id}")
            made.taken.append(ast.arg(one.id, _annotation(group)))
            made.unpacked.append(ast.Assign([ast.Tuple([*names], ast.Load())], one, lineno=0))
        else:
            made.taken.append(ast.arg("_", _annotation(group)))
    return made


def _several(argument: ast.expr) -> list[ast.expr]:
    return argument.elts if isinstance(argument, ast.Tuple) else [argument]


def _called(expression: ast.expr, scope: Scope) -> str | None:
    """What the first array in an expression is called."""
    for name in values_in(expression):
        known = scope.names.get(name)
        if isinstance(known, ast.Name):
            return known.id
    held = next(named(expression, HELD), "")  # ``path|attribute``
    return held.rpartition("|")[2] or None


def _hint(expression: ast.expr, hints: dict[str, str]) -> str | None:
    """What the original calls a value."""
    match expression:
        case ast.Name(id=name) if name.startswith(VALUE):
            return hints.get(name[1:])
    return None


def _list_name(expression: ast.expr, cls: type, hints: dict[str, str]) -> str:
    name = list_name(cls, set())
    hint = _hint(expression, hints)
    return f"{hint}s" if hint is not None and name == "collected" else name


def _one_or_several(items: tuple[Any, ...]) -> Any:
    return None if not items else items[0] if len(items) == 1 else items


def _pair(one: tuple[ast.expr, ...], other: tuple[ast.expr, ...]) -> ast.expr:
    return code("one, other", one=_one_or_several(one), other=_one_or_several(other))


def _annotation(values: tuple[Any, ...]) -> ast.expr:
    if not values:
        return ast.Constant(None)
    return code("jax.Array" if len(values) == 1 else "tuple[jax.Array, ...]")


def _annotated(scan: Scan) -> ast.expr:
    return code("tuple[one, other]", one=_annotation(scan.carried), other=_annotation(scan.stacked))


def _names(tree: ast.AST) -> list[ast.Name]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _bound(statement: ast.stmt) -> list[ast.Name]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [name for target in targets for name in _names(target)]
