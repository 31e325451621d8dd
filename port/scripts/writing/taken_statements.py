"""The statements of a script that make its data: what stands before a loader and has a part in it, and nothing else.

It is read backwards from the loaders, by the names that each statement loads and sets. What was found is only a guess
until it has been run and gives the same data (`original_data`).
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType

SEEDS = ("manual_seed", "manual_seed_all", "seed")
SHOWN = ("print", "info", "debug", "warning")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom


@dataclass
class Taken:
    """Statements in the order of the script.

    Attributes:
        definitions: imports, functions, classes, and what these need: they stand at the top.
        body: the others, which make the data.
        options: the variable that holds the script's options; None where no statement needs it.
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
) -> Taken:
    """The wanted statements, and what they need.

    Args:
        tree: the script.
        scope: the body in which they stand: the script's own, or that of one of its functions.
        before: its statements before the loop over the epochs.
        wanted: of these.
        more: names that are needed besides.
    """
    taken = Taken()
    needed = set(more)
    last = max(one.lineno for one in wanted)
    inner = [one for one in before if one.lineno <= last or set(names_set(one)) & more]
    chosen = _backwards(inner, wanted, needed, taken)
    is_inner = scope is not tree.body
    outer = _backwards([one for one in tree.body if not is_guard(one)], (), needed, taken) if is_inner else []
    at_top = outer if is_inner else chosen
    top = _at_the_top(at_top, taken.options)
    taken.definitions = [one for one in at_top if one in top]
    taken.body = [one for one in [*outer, *(chosen if is_inner else at_top)] if one not in top]
    return taken


def _backwards(
    statements: Sequence[ast.stmt], wanted: Sequence[ast.stmt], needed: set[str], taken: Taken
) -> list[ast.stmt]:
    found = []
    for statement in reversed(statements):
        sets = set(names_set(statement))
        if statement not in wanted and _gives_options(statement):
            held = [name for name in sets if name in needed]
            taken.options = held[0] if held else taken.options
            needed -= sets
            continue
        if statement in wanted or sets & needed or _is_seed(statement) or _changes(statement, needed):
            found.append(statement)
            needed |= names_loaded(statement)
    return found[::-1]


def _at_the_top(statements: Sequence[ast.stmt], options: str | None) -> list[ast.stmt]:
    top: list[ast.stmt] = [one for one in statements if isinstance(one, Definition)]
    needed = {name for one in top for name in names_loaded(one)}
    for statement in reversed(statements):
        if statement not in top and needed & set(names_set(statement)) and options not in names_loaded(statement):
            top.append(statement)
            needed |= names_loaded(statement)
    return top


def names_loaded(node: ast.stmt | ast.expr) -> set[str]:
    """Names from outside that a statement or an expression needs, also within what it defines."""
    return {
        instruction.argval
        for code in _codes(node)
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_NAME", "LOAD_GLOBAL")
    }


def names_set(statement: ast.stmt) -> list[str]:
    """Names that a statement gives a value, or a part of one."""
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
    """The last part of what is called: ``seed`` of ``random.seed(0)``."""
    match call.func:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
    return ""


def _codes(node: ast.stmt | ast.expr) -> Iterator[CodeType]:
    statement = ast.Expr(node) if isinstance(node, ast.expr) else node
    module = ast.fix_missing_locations(ast.Module([statement], []))
    try:
        pending = [compile(module, "<statement>", "exec", dont_inherit=True)]
    except SyntaxError:  # a return of a function's own
        return
    while pending:
        code = pending.pop()
        yield code
        pending += [one for one in code.co_consts if isinstance(one, CodeType)]


def _gives_options(statement: ast.stmt) -> bool:
    """Whether it is about argparse: the written script has the options of its own."""
    return any(called_name(one) in ("parse_args", "parse_known_args", "ArgumentParser") for one in calls_in(statement))


def _is_seed(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and any(called_name(one) in SEEDS for one in calls_in(statement))


def _changes(statement: ast.stmt, needed: set[str]) -> bool:
    """Whether it changes what is needed: ``options.update(…)``, ``random.shuffle(items)``."""
    calls = calls_in(statement)
    if not isinstance(statement, ast.Expr | ast.If | ast.For | ast.With):
        return False
    for call in calls:
        given = {one.id for one in call.args if isinstance(one, ast.Name)}
        base = _base(call.func) if isinstance(call.func, ast.Attribute) else None
        if isinstance(statement, ast.Expr) and called_name(call) not in SHOWN and given & needed:
            return True
        if base in needed and called_name(call) in ("update", "append", "extend", "setdefault", "insert", "shuffle"):
            return True
    return False


def is_guard(statement: ast.stmt) -> bool:
    """Whether it is what a script does when it is run, and not when it is imported."""
    return isinstance(statement, ast.If) and "__name__" in names_loaded(statement.test)


def _base(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
