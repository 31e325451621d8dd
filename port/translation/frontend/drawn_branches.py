"""Rewrite branches that depend on a random number: both run, and ``torch.where`` selects the variables they assign.

LayerDrop is the typical case: ``if self.training and torch.rand([]) < p: continue``. A capture cannot know the drawn
number. Each method that draws is therefore recompiled, from its syntax tree, for one copy of a module. Conditions are
evaluated in three-valued logic (true, false, unknown), so that ``not skip or not self.training`` is true in evaluation
whatever ``skip`` is. Where a condition is unknown, both branches run, one after the other, and each variable that they
assign becomes ``torch.where(condition, one, other)``.

A branch that writes to anything but local variables, that calls a layer with running statistics in training, or that
breaks out of a loop is left unchanged or refused.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from port.errors import NoPair
from port.translation.frontend.branch_selection import Branches
from port.translation.frontend.decorators import redecorated, undecorated
from port.translation.frontend.jumps_lowered import jumps_lowered
from port.translation.frontend.source_locations import is_users, place_of

DRAWING = frozenset({"rand", "rand_like", "randn", "randn_like", "randint", "bernoulli", "bernoulli_", "uniform_"})
"""torch's functions whose results may decide a branch."""
_BRANCHES = "__branches"
_SELECTION = "branch_selection.py"
"""The file that runs the selections; a node's stack trace shows it."""
_PLAIN = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.For, ast.Pass, ast.Expr, ast.Assert)
"""Statements that a branch may consist of."""


def select_drawn_branches(module: Any, *, numbers: bool) -> None:
    """Replace the methods that draw, in a module and its submodules, by ones that select between branches.

    Args:
        module: a private copy; changed in place. Its classes are not.
        numbers: whether it will run on real numbers; each variable then gets the value of the taken branch.
    """
    branches = Branches(module, numbers=numbers)
    for inner in module.modules():
        for name, function in _drawing_methods(type(inner)).items():  # type: ignore[arg-type]
            selecting = _with_branches(undecorated(function), branches)
            vars(inner)[name] = MethodType(redecorated(function, selecting), inner)


@cache
def _drawing_methods(cls: Any) -> dict[str, FunctionType]:
    """Return the methods of a user's class that draw random numbers and contain branches to select between.

    They may stand behind decorators.
    """
    found: dict[str, FunctionType] = {}
    for name in dir(cls):
        function = inspect.getattr_static(cls, name)
        if isinstance(function, FunctionType) and is_users((inner := undecorated(function)).__code__.co_filename):
            draws = DRAWING & {*inner.__code__.co_names}
            if draws and _selecting_code(inner) is not None:
                found[name] = function
    return found


def _with_branches(function: FunctionType, branches: Branches) -> FunctionType:
    code = _selecting_code(function)
    assert code is not None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_BRANCHES] = CellType(branches)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__, made.__doc__ = function.__kwdefaults__, function.__doc__
    made.__annotations__, made.__qualname__ = function.__annotations__, function.__qualname__
    return made


@cache
def _selecting_code(function: FunctionType) -> CodeType | None:
    """Compile a function with its branches selected; None where it has no such branches, or no source."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or definition.name != function.__name__:
        return None
    if inspect.unwrap(function) is not function:  # the source is that of what it wraps
        return None
    definition.decorator_list = []  # what they made of it stays around it
    _placed_in_file(tree, first - 1, len(lines[0]) - len(lines[0].lstrip()))
    rewriting = _Selecting()
    definition.body = rewriting.block(jumps_lowered(definition.body))
    if not rewriting.count:
        return None
    # An enclosing function, whose parameters are the variables that the function closes over.
    factory = ast.parse(f"def __factory({', '.join([*function.__code__.co_freevars, _BRANCHES])}): pass")
    factory.body[0].body = [definition]  # type: ignore[attr-defined]
    outer = compile(ast.fix_missing_locations(factory), function.__code__.co_filename, "exec")
    return next(_codes(next(_codes(outer, "__factory")), function.__name__))


def _placed_in_file(tree: ast.Module, lines: int, columns: int) -> None:
    """Shift a function's tree to its position in the file; the origins of numbers are found by position."""
    ast.increment_lineno(tree, lines)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias):
            node.col_offset += columns
            node.end_col_offset = None if node.end_col_offset is None else node.end_col_offset + columns


def _codes(code: CodeType, name: str) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name)


class _Selecting(ast.NodeTransformer):
    """Rewrites conditions and branches.

    Attributes:
        count: the number of rewritten branches.
    """

    def __init__(self) -> None:
        self.count = 0

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite a list of statements."""
        made: list[ast.stmt] = []
        for statement in statements:
            result = self.visit(statement)
            made += result if isinstance(result, list) else [result]
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node  # it has its own scope

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if not all(map(_can_wait, node.values)):
            return node
        operands = [_later(value) for value in node.values]
        return _call("any_of" if isinstance(node.op, ast.Or) else "all_of", operands, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if not all(map(_can_wait, (node.body, node.orelse))):
            return node
        self.count += 1
        return _call("either", [node.test, _later(node.body), _later(node.orelse)], node)

    def visit_If(self, node: ast.If) -> Any:
        names = sorted(_assigned([*node.body, *node.orelse]))
        plain = _is_plain([*node.body, *node.orelse])
        self.generic_visit(node)
        if not plain:
            return node
        self.count += 1
        number = self.count
        test, before, then = (f"__{what}_{number}" for what in ("test", "before", "then"))
        values = ", ".join(f"locals().get({name!r}, {_BRANCHES}.unset)" for name in names)
        lines = [
            f"{test} = {_BRANCHES}.test(None, locals())",
            f"{before} = ({values},)" if names else "pass",
            f"if {test}.may_hold: pass",
            f"{then} = ({values},)" if names else "pass",
            *([f"if {test}.is_unknown: ({', '.join(names)},) = {before}"] if names else []),
            f"if {test}.may_fail: pass",
            *(
                f"if {test}.is_unknown: {name} = {test}.selected({name!r}, {then}[{place}], {name})"
                for place, name in enumerate(names)
            ),
            f"{test}.end()",
        ]
        made = [ast.copy_location(ast.parse(line).body[0], node) for line in lines]
        for statement in made:
            _locate(statement, node.lineno)
        made[0].value.args[0] = node.test  # type: ignore[attr-defined]
        made[2].body = node.body  # type: ignore[attr-defined]
        made[-2 - len(names)].body = node.orelse or [ast.Pass()]  # type: ignore[attr-defined]
        for name, statement in zip(names, made[-1 - len(names) : -1], strict=True):
            # Attribute the selection to the variable's last assignment.
            _locate(statement, _last_line([*node.orelse, *node.body], name) or node.lineno)
        return [ast.fix_missing_locations(statement) for statement in made]


def _locate(statement: ast.stmt, line: int) -> None:
    for node in ast.walk(statement):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = line


def _call(name: str, arguments: list[ast.expr], node: ast.expr) -> ast.expr:
    function = ast.Attribute(ast.Name(_BRANCHES, ast.Load()), name, ast.Load())
    return ast.fix_missing_locations(ast.copy_location(ast.Call(function, arguments, []), node))


def _later(value: ast.expr) -> ast.expr:
    none = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(none, value), value)


def _can_wait(value: ast.expr) -> bool:
    """Whether an expression means the same inside a lambda."""
    return not any(
        isinstance(node, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await)
        or (isinstance(node, ast.Name) and node.id == "super")
        for node in ast.walk(value)
    )


def _is_plain(statements: list[ast.stmt]) -> bool:
    """Whether statements only assign local variables."""
    for statement in statements:
        if not isinstance(statement, _PLAIN):
            return False
        match statement:
            case ast.Expr() if not isinstance(statement.value, ast.Constant):
                return False
            case ast.Assign() if not all(map(_is_variable, statement.targets)):
                return False
            case ast.AnnAssign() | ast.AugAssign() | ast.For() if not _is_variable(statement.target):
                return False
            case ast.If() | ast.For() if not _is_plain([*statement.body, *statement.orelse]):
                return False
    return True


def _is_variable(target: ast.expr) -> bool:
    match target:
        case ast.Tuple() | ast.List():
            return all(map(_is_variable, target.elts))
        case ast.Starred():
            return _is_variable(target.value)
    return isinstance(target, ast.Name)


def _assigned(statements: list[ast.stmt]) -> set[str]:
    """Return the variables that statements assign."""
    return {name for statement in statements for name, _ in _stores(statement)}


def _last_line(statements: list[ast.stmt], name: str) -> int | None:
    return max((line for each in statements for found, line in _stores(each) if found == name), default=None)


def _stores(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names that a statement binds, with their lines; comprehensions have their own scope."""
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id, node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _stores(child)


def refuse_branches_of_inputs(program: Any) -> None:
    """Check that conditions of selected branches depend on random numbers only, not on inputs.

    If inputs decide, it may be wrong to run the branch that is not taken: ``log`` of a negative number has NaN
    gradients even where its result is not selected.

    Args:
        program: a ``torch.export.ExportedProgram``.

    Raises:
        NoPair: a condition depends on an input; says where.
    """
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        selects = _SELECTION in (node.meta.get("stack_trace") or "") and node.op == "call_function"
        if selects and any(each.name in inputs for each in _read_for(node)):
            raise NoPair(
                f"{place_of(node)}: a branch that a random number and an input decide together is data-dependent, and "
                "a traced JAX program cannot read an input's values: write it with torch.where, or let the random "
                "number decide alone"
            )


def _read_for(selecting: Any) -> Iterator[Any]:
    """Yield the nodes from which a selection's condition is computed."""
    waiting, seen = [node for node in selecting.args[:1] if hasattr(node, "op")], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        name = str(node.target)
        if not any(drawing in name for drawing in (*DRAWING, "sym_size")):  # these read only shapes
            waiting += node.all_input_nodes
