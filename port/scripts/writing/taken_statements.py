"""Select the statements of a script that make its data: those that a loader depends on, and nothing else.

The script is read backwards from the loaders, by the names that each statement loads and sets. The selection is only a
guess until it has been run and gives the same data (`original_data`).
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from port.scripts.writing.own_calls import Function, is_call_of

SEEDS = ("manual_seed", "manual_seed_all", "seed")
DRAWS = ("rand", "normal", "bernoulli", "multinomial", "shuffle", "choice", "permutation", "integers", "uniform")
"""Words in the names of functions that draw."""
SHOWN = ("print", "info", "debug", "warning")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom


@dataclass
class Taken:
    """Statements in the script's order.

    Attributes:
        definitions: imports, functions, classes, and what they need: they go to the top.
        body: the others, which make the data.
        options: the variable that holds the script's options; None if no statement needs it.
    """

    definitions: list[ast.stmt] = field(default_factory=list)
    body: list[ast.stmt] = field(default_factory=list)
    options: str | None = None


def taken_statements(
    tree: ast.Module,
    scope: Sequence[ast.stmt],
    before: Sequence[ast.stmt],
    wanted: Sequence[ast.stmt],
    more: set[str],
    models: Sequence[ast.stmt] = (),
) -> Taken:
    """The wanted statements, and those that they depend on.

    Args:
        tree: the script.
        scope: the body that contains them: the script's top level, or one of its functions.
        before: its statements before the loop over the epochs.
        wanted: the wanted ones among these.
        more: further names that are needed.
        models: the statements before the loop that make models, if the data is drawn after their weights.
    """
    taken = Taken()
    needed = set(more)
    last = max((one.lineno for one in wanted or before), default=0)
    inner = [one for one in before if one.lineno <= last or set(names_set(one)) & more]
    chosen = _backwards(inner, [*wanted, *models], needed, taken)
    is_inner = scope is not tree.body
    outer = _backwards([one for one in tree.body if not is_guard(one)], (), needed, taken) if is_inner else []
    at_top = outer if is_inner else chosen
    top = _at_the_top(at_top, taken.options, models)
    taken.definitions = [one for one in at_top if one in top]
    taken.body = [one for one in [*outer, *(chosen if is_inner else at_top)] if one not in top]
    return taken


def statements_for(statements: Sequence[ast.stmt], needed: set[str]) -> list[ast.stmt]:
    """The statements that set the needed names; ``needed`` is updated to what they need in turn.

    Args:
        statements: consecutive statements.
        needed: names; modified in place.
    """
    found = []
    for statement in reversed(statements):
        if set(names_set(statement)) & needed:
            found.append(statement)
            needed -= kills(statement)
            needed |= names_loaded(statement)
    return found[::-1]


def kills(statement: ast.stmt) -> set[str]:
    """The names that it overwrites regardless of their previous value."""
    return set(names_set(statement)) - names_loaded(statement) if _is_plain(statement) else set()


def _is_plain(statement: ast.stmt) -> bool:
    """Whether its result does not depend on the previous value of what it sets."""
    stored = [one for one in ast.walk(statement) if isinstance(one, ast.Subscript | ast.Attribute)]
    is_part = any(isinstance(one.ctx, ast.Store) for one in stored)
    return isinstance(statement, ast.Assign | ast.AnnAssign) and not is_part


def _backwards(
    statements: Sequence[ast.stmt], wanted: Sequence[ast.stmt], needed: set[str], taken: Taken
) -> list[ast.stmt]:
    found = []
    for statement in reversed(statements):
        sets = set(names_set(statement))
        if statement not in wanted and gives_options(statement):
            held = [name for name in sets if name in needed and not isinstance(statement, Definition)]
            taken.options = held[0] if held else taken.options
            needed -= sets
            continue
        if statement in wanted or sets & needed or is_seed(statement) or changes(statement, needed):
            found.append(statement)
            needed |= names_loaded(statement)
    return found[::-1]


def _at_the_top(statements: Sequence[ast.stmt], options: str | None, models: Sequence[ast.stmt]) -> list[ast.stmt]:
    top: list[ast.stmt] = [one for one in statements if isinstance(one, Definition)]
    needed = {name for one in top for name in names_loaded(one)}
    for statement in reversed(statements):
        seeds = is_seed(statement) and any(_draws(one) for one in top)
        is_needed = seeds or needed & set(names_set(statement))
        if statement not in top and is_needed and options not in names_loaded(statement):
            top.append(statement)
            needed |= names_loaded(statement)
    while rest := [
        one
        for one in top
        if names_loaded(one) & _known_late(statements, top, options) or _draws_late(one, statements, top, models)
    ]:
        top = [one for one in top if one not in rest]
    return [one for one in top if not is_seed(one) or any(map(_draws, top))]


def _draws_late(
    statement: ast.stmt, statements: Sequence[ast.stmt], top: Sequence[ast.stmt], models: Sequence[ast.stmt]
) -> bool:
    """Whether it draws from generators that a statement below the top level seeds or uses earlier."""
    before = [one for one in statements if one not in top and one.lineno < statement.lineno]
    return _draws(statement) and any(is_seed(one) or _draws(one) or one in models for one in before)


def _draws(statement: ast.stmt) -> bool:
    """Whether it draws, judging by the names of its calls."""
    if isinstance(statement, Definition):
        return False
    names = [called_name(one) for one in calls_in(statement) if not any(w.arg == "generator" for w in one.keywords)]
    return any(word in name for name in names for word in DRAWS)


def _known_late(statements: Sequence[ast.stmt], top: Sequence[ast.stmt], options: str | None) -> set[str]:
    """The options, and names that are set below the top level."""
    below = [name for one in statements if one not in top for name in names_set(one)]
    return {*below, *([options] if options is not None else [])}


def names_loaded(node: ast.stmt | ast.expr) -> set[str]:
    """The free names of a statement or an expression, including those of functions that it defines."""
    return {
        instruction.argval
        for code in _codes(node)
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_NAME", "LOAD_GLOBAL")
    }


def names_set(statement: ast.stmt) -> list[str]:
    """Names that a statement sets, fully or partly."""
    outer = next(iter(_codes(statement)), None)
    instructions = [] if outer is None else list(dis.get_instructions(outer))
    found = [one.argval for one in instructions if one.opname in ("STORE_NAME", "STORE_GLOBAL")]
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            found += [name for name in (_base(node),) if name is not None]
    return found


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """The calls within a statement or an expression."""
    return (one for one in ast.walk(node) if isinstance(one, ast.Call))


def called_name(call: ast.Call) -> str:
    """The last part of the called name: ``seed`` of ``random.seed(0)``."""
    match call.func:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
    return ""


def _codes(node: ast.stmt | ast.expr) -> Iterator[CodeType]:
    statement = ast.Expr(node) if isinstance(node, ast.expr) else node
    module = ast.fix_missing_locations(ast.Module([statement], []))
    try:
        pending = [compile(module, "<statement>", "exec", dont_inherit=True)]
    except SyntaxError:  # a function's return statement
        return
    while pending:
        code = pending.pop()
        yield code
        pending += [one for one in code.co_consts if isinstance(one, CodeType)]


def gives_options(statement: ast.stmt) -> bool:
    """Whether it belongs to argparse: the written script parses the options itself."""
    return any(called_name(one) in ("parse_args", "parse_known_args", "ArgumentParser") for one in calls_in(statement))


def options_of(tree: ast.Module) -> str | None:
    """The variable that holds argparse's options."""
    for one in ast.walk(tree):
        match one:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Call() as call) if called_name(call) == "parse_args":
                return name
    return None


def is_seed(statement: ast.stmt) -> bool:
    """Whether it seeds generators: ``torch.manual_seed(0)``."""
    return isinstance(statement, ast.Expr) and any(called_name(one) in SEEDS for one in calls_in(statement))


def changes(statement: ast.stmt, needed: set[str]) -> bool:
    """Whether it mutates a needed value: ``options.update(…)``, ``random.shuffle(items)``."""
    calls = calls_in(statement)
    if not isinstance(statement, ast.Expr | ast.If | ast.For | ast.With):
        return False
    for call in calls:
        passed = {one.id for one in call.args if isinstance(one, ast.Name)}
        base = _base(call.func) if isinstance(call.func, ast.Attribute) else None
        if isinstance(statement, ast.Expr) and called_name(call) not in SHOWN and passed & needed:
            return True
        if base in needed and called_name(call) in ("update", "append", "extend", "setdefault", "insert", "shuffle"):
            return True
    return False


def runs(statement: ast.stmt, where: dict[str, Any]) -> bool:
    """Whether a statement contains a line, or calls the function that contains it."""
    if isinstance(statement, Function | ast.ClassDef):
        return False
    return holds(statement, where["line"]) or any(
        is_call_of(call, where["function"], where["file"]) for call in calls_in(statement)
    )


def holds(statement: ast.stmt | ast.expr, line: int) -> bool:
    """Whether a line belongs to a statement or an expression."""
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def targets_of(target: ast.expr) -> set[str]:
    """The names that a loop's or an assignment's target sets."""
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def is_guard(statement: ast.stmt) -> bool:
    """Whether it is a main guard: ``if __name__ == "__main__":``."""
    return isinstance(statement, ast.If) and "__name__" in names_loaded(statement.test)


def _base(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
