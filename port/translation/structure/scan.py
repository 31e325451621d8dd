"""Write a loop as a function for one iteration, and `jax.lax.scan` over it.

If an iteration changes the module, `nnx.scan` carries the module: its parameters stay constant, all other state goes
from iteration to iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code, names_in, values_in
from port.translation.ir.graph import each_value
from port.translation.ir.lowered import Scan
from port.translation.structure.inline_dce import Made, with_inlined
from port.translation.structure.list_append import list_name
from port.translation.structure.scope import Scope

_STEP = "step"
_MOST_TRIES = 5


def ends_of(scan: Scan) -> list[str]:
    """The values that an iteration's results are computed from."""
    return [name for expression in (*scan.next, *scan.outputs) for name in values_in(expression)]


def with_inlined_ends(scan: Scan, inline: dict[str, syntax.Expr]) -> Scan:
    """Inline values in the results of an iteration."""
    after, stacked = (tuple(with_inlined(item, inline) for item in items) for items in (scan.next, scan.outputs))
    return replace(scan, next=after, outputs=stacked)


def loop_statement(scan: Scan, rounds: list[Made]) -> Made:
    """Turn a loop into a statement to be written.

    Args:
        scan: the loop.
        rounds: what one iteration computes.
    """
    own = {value.name for value in (*scan.carried, *scan.sliced)}
    own |= {value.name for item in rounds for value in each_value(item.results)}
    reads = [name for item in rounds for name in item.reads] + ends_of(scan)
    expression = code(
        "jax.lax.scan(step, first, whole)", first=_one_or_several(scan.first), whole=_one_or_several(scan.whole)
    )
    assert isinstance(expression, syntax.Call)
    options = {"length": scan.length, "reverse": syntax.Const(True) if scan.reverse else None}
    keywords = tuple(syntax.Keyword(name, value) for name, value in options.items() if value is not None)
    expression = replace(expression, keywords=keywords)
    results = (_one_or_several(scan.last), _one_or_several(scan.stacked))
    outside = tuple(dict.fromkeys(name for name in reads if name not in own))
    return Made(results, expression, None, scan=scan, rounds=rounds, inside=outside)


def written_loop(
    item: Made, scope: Scope, original: Any, statements: Callable[[Scope], list[syntax.Stmt]]
) -> tuple[syntax.Stmt, syntax.Expr]:
    """Write the function of one iteration, and the expression that calls it.

    Args:
        item: the loop; the names of its results are recorded in it.
        scope: the scope of the enclosing function.
        original: the original's function, which may have a name for the list that the iterations fill.
        statements: writes the statements of one iteration in a scope.
    """
    scan, call = item.scan, item.expression
    assert scan is not None
    assert isinstance(call, syntax.Call)
    hints = {value: name for made in item.rounds for value, name in made.names.items()}
    kept = names_in(*(scope.names[name] for name in item.inside if name in scope.names))
    for _ in range(_MOST_TRIES):
        inside = scope.function(kept)
        arguments = _arguments(scan, call, scope, inside, hints)
        body = [*arguments.unpacked, *statements(inside)]
        returned = _pair(scan.next, scan.outputs)
        body.append(syntax.Return(inside.resolved(returned)))
        lost = inside.read_outside & names_in(*(each.target for each in body if isinstance(each, syntax.Assign)))
        lost |= inside.read_outside & {argument.name for argument in arguments.taken}
        if not lost:
            break
        kept |= lost
    function = scope.called(_STEP, f"def {scan.last!r}{scan.stacked!r}")
    for last, argument in zip(scan.last, arguments.carried, strict=True):
        item.names[last.name] = argument
    for value, expression in zip(scan.stacked, scan.outputs, strict=True):
        item.names[value.name] = _list_name(expression, original, hints)
    if not scan.stateful:
        definition = _defined(function, arguments.taken, body, scan)
        return definition, replace(call, args=(function, *call.args[1:]))
    count = 2 if scan.sliced else 1
    taken = [syntax.Parameter("self"), *arguments.taken[:count]]
    definition = replace(_defined(function, taken, body, scan), decorators=(_lifted(count, call.keywords),))
    return definition, syntax.Call(function, (syntax.Name("self"), *call.args[1 : 1 + count]))


def _defined(
    function: syntax.Name, taken: list[syntax.Parameter], body: list[syntax.Stmt], scan: Scan
) -> syntax.FunctionDef:
    return syntax.FunctionDef(function.id, tuple(taken), tuple(body), returns=_annotated(scan))


def _lifted(count: int, options: tuple[syntax.Keyword, ...]) -> syntax.Expr:
    """The ``nnx.scan`` decorator that carries the module."""
    axes = "nnx.Carry, 0" if count == 2 else "nnx.Carry"
    made = code(
        f"nnx.scan(in_axes=(nnx.StateAxes({{nnx.Param: None, ...: nnx.Carry}}), {axes}), out_axes=(nnx.Carry, 0))"
    )
    assert isinstance(made, syntax.Call)
    return replace(made, keywords=(*made.keywords, *options))


class _Arguments:
    """The function's two arguments, and the statements that unpack them."""

    def __init__(self) -> None:
        self.taken: list[syntax.Parameter] = []
        self.unpacked: list[syntax.Stmt] = []
        self.carried: list[str] = []


def _arguments(scan: Scan, call: syntax.Call, scope: Scope, inside: Scope, hints: dict[str, str]) -> _Arguments:
    made = _Arguments()
    first, whole = (_several(argument) for argument in call.args[1:])
    firsts = [_called(each, scope) for each in first[: len(scan.first)]]
    afters = [_hint(after, hints) for after in scan.next]
    carried = [after or first or "state" for after, first in zip(afters, firsts, strict=True)]
    sliced = [
        f"{_called(each, scope) or 'x'}_t" if value.shape else "t"  # the iteration's number
        for each, value in zip(whole, scan.sliced, strict=False)
    ]
    for group, wanted, together in ((scan.carried, carried, "carry"), (scan.sliced, sliced, "inputs")):
        names = [inside.called(name, value.name) for name, value in zip(wanted, group, strict=True)]
        if group is scan.carried:
            made.carried = [name.id for name in names]
        if len(names) == 1:
            made.taken.append(syntax.Parameter(names[0].id, _annotation(group)))
        elif names:
            one = inside.called(together, f"{together} {names[0].id}")
            made.taken.append(syntax.Parameter(one.id, _annotation(group)))
            made.unpacked.append(syntax.Assign(syntax.Tuple(tuple(names)), one))
        else:
            made.taken.append(syntax.Parameter("_", _annotation(group)))
    return made


def _several(argument: syntax.Expr) -> tuple[syntax.Expr, ...]:
    return argument.elts if isinstance(argument, syntax.Tuple) else (argument,)


def _called(expression: syntax.Expr, scope: Scope) -> str | None:
    """The name of the first array in an expression."""
    for name in values_in(expression):
        known = scope.names.get(name)
        if isinstance(known, syntax.Name):
            return known.id
    held = next((node.attribute for node in syntax.walk(expression) if isinstance(node, syntax.Attr)), "")
    return held if held.isidentifier() else None  # items of a list have numbers


def _hint(expression: syntax.Expr, hints: dict[str, str]) -> str | None:
    """The original's name for a value."""
    return hints.get(expression.name) if isinstance(expression, syntax.Use) else None


def _list_name(expression: syntax.Expr, original: Any, hints: dict[str, str]) -> str:
    name = list_name(original, set())
    hint = _hint(expression, hints)
    return f"{hint}s" if hint is not None and name == "collected" else name


def _one_or_several(items: tuple[Any, ...]) -> Any:
    return None if not items else items[0] if len(items) == 1 else items


def _pair(one: tuple[syntax.Expr, ...], other: tuple[syntax.Expr, ...]) -> syntax.Expr:
    return code("one, other", one=_one_or_several(one), other=_one_or_several(other))


def _annotation(values: tuple[Any, ...]) -> syntax.Expr:
    if not values:
        return syntax.Const(None)
    return code("jax.Array" if len(values) == 1 else "tuple[jax.Array, ...]")


def _annotated(scan: Scan) -> syntax.Expr:
    return code("tuple[one, other]", one=_annotation(scan.carried), other=_annotation(scan.stacked))
