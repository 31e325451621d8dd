"""Turn a learning rate that a loop over steps sets by hand in the optimizer's groups into a variable of the loop."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.observing.statements import loops_of, parsed
from port.scripts.writing.loop_slice import Yielded, slice_of
from port.scripts.writing.own_calls import Function, argument_for
from port.scripts.writing.taken_statements import called_name, calls_in, holds, names_loaded, targets_of

NAME = "lr"


@dataclass
class RateByHand:
    """How the loop computes its rate.

    Attributes:
        name: the variable's name.
        expression: the variable; None if no rate is set.
        others: replacements of the statements that set it: ``lr = get_lr(step)``, or nothing.
        first: the statement that initialises it, if the loop sets it only after its first update.
        nodes: the statements copied with it.
        functions: the functions that compute it, as source.
        needed: names that these need.
        own: the name of such a function.
    """

    name: str = NAME
    expression: ast.expr | None = None
    others: dict[ast.stmt, ast.stmt | None] = field(default_factory=dict)
    first: list[ast.stmt] = field(default_factory=list)
    nodes: list[ast.AST] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    needed: frozenset[str] = frozenset()
    own: str = ""


def rate_by_hand(
    loop: ast.For | ast.While,
    first_rate: float,
    first_expressions: Sequence[ast.expr],
    functions: Sequence[Function] = (),
    rows: Sequence[str] = (),
) -> RateByHand:
    """Find the rate in a loop.

    Args:
        loop: the loop over the steps.
        first_rate: the rate with which the optimizer is constructed.
        first_expressions: the expressions for it.
        functions: the script's functions, which may set it.
        rows: the script's lines.

    Raises:
        UsageError: it is not set by ``group["lr"] = …``, exactly once, in the loop itself.
    """
    found = [one for one in _inner(loop) if _sets_rate(one)]
    if not found and (called := _called_setting(loop, functions)) is not None:
        return _rate_of_function(loop, first_rate, first_expressions, rows, *called)
    if len(found) != 1:
        how = "in no line of the loop itself" if not found else f"at {' and '.join(f'line {o.lineno}' for o in found)}"
        raise UsageError(
            f"line {loop.lineno}: the learning rate is set {how}: compute it once in the loop, and set it there by "
            'group["lr"] = …, or write the loop around train_step'
        )
    (statement,) = found
    outer, value = _set_value(loop, statement)
    name = value.id if isinstance(value, ast.Name) and isinstance(statement, ast.Assign) else _free(loop)
    rate = RateByHand(name, ast.Name(name, ast.Load()), {outer: None}, nodes=[value, *first_expressions])
    if isinstance(statement, ast.AugAssign):
        value = ast.BinOp(ast.Name(name, ast.Load()), statement.op, value)
    if not (isinstance(value, ast.Name) and value.id == name):
        rate.others[outer] = _assignment(name, value, statement.lineno)
        rate.first = [_first(name, first_rate, first_expressions)]
    return rate


def _rate_of_function(
    loop: ast.stmt,
    first_rate: float,
    first_expressions: Sequence[ast.expr],
    rows: Sequence[str],
    statement: ast.stmt,
    call: ast.Call,
    function: Function,
) -> RateByHand:
    """The rate set by a function that the loop calls: the function is changed to return it."""
    (setting,) = [one for one in _inner(function) if _sets_rate(one)]
    outer, value = _set_value(function, setting)
    if isinstance(setting, ast.AugAssign):
        raise UsageError(f"line {setting.lineno} changes the rate in a function: set it in the loop's own lines")
    made = slice_of([], function.body, {outer: replace(Yielded.of([value], ast.unparse(value)), word="return")}, rows)
    parameters = [one.arg for one in function.args.args if one.arg in made.needed]
    values = [argument_for(one, call, function, ()) for one in parameters]
    arguments = [one for one in values if one is not None]
    if len(arguments) != len(values):
        raise UsageError(
            f"line {call.lineno}: the arguments of {function.name} are not visible: set the rate in the loop"
        )
    name, own = _free(loop), f"{function.name}_rate"
    said = ast.Call(ast.Name(own, ast.Load()), [*arguments], [])
    return RateByHand(
        name,
        ast.Name(name, ast.Load()),
        {statement: _assignment(name, said, statement.lineno)},
        [_first(name, first_rate, first_expressions)],
        [*made.nodes, *arguments, *first_expressions],
        [made.function(own, parameters)],
        frozenset(made.needed - set(parameters)),
        own,
    )


def _called_setting(loop: ast.stmt, functions: Sequence[Function]) -> tuple[ast.stmt, ast.Call, Function] | None:
    """The only call in a loop of a function that sets a rate, with its statement; None if there is none."""
    setting = [one for one in functions if sum(map(_sets_rate, _inner(one))) == 1]
    plain = [one for one in _inner(loop) if isinstance(one, ast.Expr | ast.Assign)]
    found = [
        (one, call, function)
        for one in plain
        for call in calls_in(one)
        for function in setting
        if called_name(call) == function.name
    ]
    return found[0] if len(found) == 1 else None


def _set_value(around: ast.stmt, statement: ast.stmt) -> tuple[ast.stmt, ast.expr]:
    """The statement that sets the rate of all groups, and the value.

    Raises:
        UsageError: the groups' rates differ.
    """
    assert isinstance(statement, ast.Assign | ast.AugAssign)
    outer, counters = _around(around, statement)
    if strange := names_loaded(statement.value) & counters:
        raise UsageError(
            f"line {statement.lineno}: the rate depends on {', '.join(sorted(strange))}, so it differs between groups: "
            "use one rate for all groups, or write the loop around train_step"
        )
    return outer, statement.value


def is_set_around(where: Event) -> bool:
    """Whether a loop around a line sets a rate, even if it does not change for a while."""
    loops = [one for one in loops_of(where["file"]) if holds(one, where["line"])]
    functions = [one for one in parsed(where["file"]).body if isinstance(one, Function)]
    is_called = any(_called_setting(loop, functions) is not None for loop in loops)
    return is_called or any(_sets_rate(one) for loop in loops for one in _inner(loop))


def _first(name: str, rate: float, expressions: Sequence[ast.expr]) -> ast.stmt:
    """Assign the rate with which the optimizer is constructed, by the script's expression."""
    return _assignment(name, expressions[-1] if expressions else ast.Constant(rate), 0)


def _assignment(name: str, value: ast.expr, line: int) -> ast.stmt:
    made = ast.Assign([ast.Name(name, ast.Store())], value)
    made.lineno, made.col_offset, made.end_lineno = line, 0, line
    return ast.fix_missing_locations(made)


def _inner(loop: ast.stmt) -> list[ast.stmt]:
    return [one for one in ast.walk(loop) if isinstance(one, ast.stmt)]


def _sets_rate(one: ast.stmt) -> bool:
    match one:
        case (
            ast.Assign(targets=[ast.Subscript(slice=ast.Constant("lr"))])
            | ast.AugAssign(target=ast.Subscript(slice=ast.Constant("lr")))
        ):
            return True
    return False


def _around(loop: ast.stmt, statement: ast.stmt) -> tuple[ast.stmt, set[str]]:
    """The loop over the groups whose only statement this is, or the statement itself; and the loop's targets."""
    for one in _inner(loop):
        if isinstance(one, ast.For) and one is not loop and one.body == [statement]:
            return one, targets_of(one.target)
    return statement, set()


def _free(loop: ast.stmt) -> str:
    taken = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name)}
    return NAME if NAME not in taken else "rate_of_update"


def made_with(observation: Observation, tree: ast.Module) -> list[ast.expr]:
    """The expressions of the rate in the optimizer's construction, which is unused if each update has its own."""
    places = [(one["constructed"] or {}).get("where") for one in observation.optimizers]
    lines = {where["line"] for where in places if where}
    functions = [one for one in ast.walk(tree) if isinstance(one, Function)]
    found = []
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and call.lineno in lines:
            found += [word.value for word in call.keywords if word.arg == "lr"] or call.args[1:2]
    for function in functions:  # it may be a parameter of one of them
        used = [one.id for one in found if isinstance(one, ast.Name)]
        names = [one.arg for one in function.args.args if one.arg in used]
        if names and any(holds(function, line) for line in lines):
            is_bound = function.args.args[0].arg == "self"
            calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and called_name(one) == function.name]
            values = [argument_for(name, call, function, (), is_bound=is_bound) for name in names for call in calls]
            found += [one for one in values if one is not None]
    return found
