"""A script's evaluation in its own lines: its loop, its sums and what it prints, around numbers that JAX computes.

Of the function that evaluates, what is computed with torch falls away: each number that leaves torch (``.item()``) is
one that `measure` gives of a batch. What then nobody reads is left out, and the rest stays as it is.
"""

from __future__ import annotations

import ast
import builtins
import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.wording import place_of
from port.scripts.writing.evaluated_numbers import TakenNumber
from port.scripts.writing.loop import loop_over_batches
from port.scripts.writing.own_calls import Function, is_call_of
from port.scripts.writing.taken_statements import called_name, calls_in, names_loaded, names_set

MODES = ("eval", "train", "requires_grad_")
GUARDS = ("no_grad", "inference_mode", "set_grad_enabled", "autocast")
OURS = ("measure", "numbers")
"""Names in the written function that are no names of the script's."""


@dataclass(frozen=True)
class OwnEvaluation:
    """A script's evaluation, as a function of what measures a batch and of the loader.

    Attributes:
        loader: the script's name for the loader.
        more: other names that the function is given, each with what train.py has for it: "epoch" or "args".
        statements: its body.
        imports: what it needs of the script's imports and plain constants.
        names: of the numbers that are taken of a batch, as a record has them.
        lines: of the script, from the function's first to its last.
        shown: what the caller calls what it returns; None where it returns nothing.
        where: the script's line.
    """

    loader: str
    more: tuple[tuple[str, str], ...]
    statements: tuple[ast.stmt, ...]
    imports: tuple[ast.stmt, ...]
    names: tuple[str, ...]
    lines: range
    shown: str | None
    where: str


def own_evaluation(
    tree: ast.Module, begun: Event, taken: Sequence[TakenNumber], options: str | None, epoch: str
) -> OwnEvaluation:
    """Read it in the script's source.

    Args:
        tree: the script.
        begun: a line of the loop over the evaluation's batches.
        taken: the numbers that leave torch for one batch.
        options: the variable that holds the script's options, where there are any.
        epoch: the variable that counts its epochs.

    Raises:
        UsageError: it is not plain; says the line.
    """
    loop = loop_over_batches(tree, begun["line"])
    function = next((one for one in ast.walk(tree) if isinstance(one, Function) and loop in list(ast.walk(one))), None)
    calls = [one for one in calls_in(tree) if is_call_of(one, begun["function"], begun["file"])]
    if loop is None or function is None or len(calls) != 1:
        raise UsageError(f"{place_of(begun)} evaluates in no function of its own that is called at one place")
    loop = copy.deepcopy(loop)
    body = _without_guards(function.body)
    place = next((number for number, one in enumerate(body) if one.lineno == loop.lineno), None)
    if place is None:
        raise UsageError(f"{place_of(begun)}: the loop over the evaluation's batches is inside another statement")
    batch, loader = _batch(loop, begun)
    inside = _needed_inside(_with_numbers(_without_guards(loop.body), taken, begun), body[place + 1 :])
    measured = ast.parse(f"numbers = measure({ast.unparse(batch)})").body
    loop.body = [*measured, *inside]
    after = [one for one in body[place + 1 :] if not _switches(one)]
    needed = {name for one in (loop, *after) for name in _loaded(one)}
    before = _needed_before([one for one in body[:place] if not _switches(one)], needed)
    whole = [*before, loop, *after]
    own = {name for one in whole for name in [*names_set(one), *_targets(one)]} - {"numbers"}
    free = {name for one in whole for name in _loaded(one)} - own - set(vars(builtins)) - {loader, *OURS}
    imports = [one for one in tree.body if _gives(one) & free and _is_plain(one)]
    free -= {name for one in imports for name in _gives(one)}
    given = _arguments(function, calls[0])
    known = {epoch: "epoch", **({options: "args"} if options else {})}
    said = {name: value.id if isinstance(value := given.get(name), ast.Name) else name for name in free}
    more = tuple((name, known[said[name]]) for name in sorted(free) if said[name] in known)
    constants = [_constant(name, given[name]) for name in sorted(free) if isinstance(given.get(name), ast.Constant)]
    free -= {name for name, _ in more} | {name for one in constants for name in names_set(one)}
    used = {one.id for one in ast.walk(function) if isinstance(one, ast.Name)}
    if strange := free or used & {*OURS}:
        said_names = ", ".join(sorted(strange))
        raise UsageError(f"{place_of(begun)}: the evaluation reads {said_names}, which only the script has")
    shown = _shown(tree, calls[0]) if any(_returns(one) for one in after) else None
    lines = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    names = _names(inside, len(taken))
    return OwnEvaluation(loader, more, (*constants, *whole), tuple(imports), names, lines, shown, place_of(begun))


def _names(block: Sequence[ast.stmt], count: int) -> tuple[str, ...]:
    """What the script calls the sum of each number."""
    found: dict[int, str] = {}
    for statement in block:
        for one in ast.walk(statement):
            match one:
                case ast.AugAssign(ast.Name(name), _, value) | ast.Assign([ast.Name(name)], value):
                    found |= {place: name for place in _places(value) if name not in found.values()}
    taken = {"loss", "step", "duration", "seconds", "kind"}
    return tuple(
        found[place] if found.get(place, "loss") not in taken else f"number_{place + 1}" for place in range(count)
    )


def _places(value: ast.expr) -> list[int]:
    """Which numbers are in an expression."""
    found = []
    for one in ast.walk(value):
        match one:
            case ast.Subscript(ast.Name("numbers"), ast.Constant(int() as place)):
                found.append(place)
    return found


def _without_guards(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A block with what is under ``with torch.no_grad():`` in its place; without its docstring."""
    found: list[ast.stmt] = []
    for one in block:
        match one:
            case ast.With(items, body) if all(
                isinstance(item.context_expr, ast.Call) and called_name(item.context_expr) in GUARDS for item in items
            ):
                found += _without_guards(body)
            case ast.Expr(ast.Constant(str())):
                pass
            case _:
                found.append(one)
    return found


def _batch(loop: ast.For, begun: Event) -> tuple[ast.expr, str]:
    """What holds the batch, and the name of the loader."""
    iterated, target = loop.iter, loop.target
    while isinstance(iterated, ast.Call) and called_name(iterated) in ("enumerate", "tqdm", "track"):
        if called_name(iterated) == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        iterated = iterated.args[0]
    if not isinstance(iterated, ast.Name):
        raise UsageError(f"{place_of(begun)} goes through the evaluation's batches otherwise than by a loader's name")
    batch = copy.deepcopy(target)
    for one in ast.walk(batch):
        if isinstance(one, ast.Name | ast.Tuple | ast.List):
            one.ctx = ast.Load()
    return batch, iterated.id


def _with_numbers(block: Sequence[ast.stmt], taken: Sequence[TakenNumber], begun: Event) -> list[ast.stmt]:
    """The loop's statements with ``numbers[n].item()`` where the n-th number leaves torch.

    Raises:
        UsageError: one leaves it elsewhere, or as no number.
    """
    found: list[Any] = copy.deepcopy(list(block))
    for number, one in enumerate(taken):
        if one.call is None or not isinstance(one.value, bool | int | float) or one.where["file"] != begun["file"]:
            raise UsageError(f"{place_of(one.where)} takes something out of torch that is no number of the batch's")
        text = ast.unparse(ast.parse(one.where["text"], mode="eval"))
        replaced = _Replaced(text, one.where["line"], number)
        found = [replaced.visit(statement) for statement in found]
        if replaced.count != 1:
            raise UsageError(f"{place_of(one.where)} takes a number out of torch, not once for each batch")
    return found


class _Replaced(ast.NodeTransformer):
    """An expression at a line by a number that was measured."""

    def __init__(self, text: str, line: int, number: int) -> None:
        self._text, self._line, self._number, self.count = text, line, number, 0

    def visit(self, node: ast.AST) -> ast.AST:
        """The expression itself, or what is in it."""
        is_there = isinstance(node, ast.Call) and node.lineno <= self._line <= (node.end_lineno or node.lineno)
        if is_there and ast.unparse(node) == self._text:
            self.count += 1
            return ast.copy_location(ast.parse(f"numbers[{self._number}].item()", mode="eval").body, node)
        return super().generic_visit(node)


def _needed_inside(block: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A loop's statements without the plain assignments that nobody reads."""
    kept = list(block)
    behind = {name for one in after for name in _loaded(one)}
    while True:
        left = [one for place, one in enumerate(kept) if not _is_idle(one, [*kept[:place], *kept[place + 1 :]], behind)]
        if len(left) == len(kept):
            return left
        kept = left


def _is_idle(statement: ast.stmt, others: Sequence[ast.stmt], behind: set[str]) -> bool:
    """Whether nobody reads what a statement sets."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return _switches(statement)
    read = behind.union(*(_loaded(one) for one in others))
    return not set(names_set(statement)) & read


def _needed_before(block: Sequence[ast.stmt], needed: set[str]) -> list[ast.stmt]:
    found = []
    for one in reversed(block):
        if set(names_set(one)) & needed:
            found.append(one)
            needed |= _loaded(one)
    return found[::-1]


def _switches(statement: ast.stmt) -> bool:
    """``model.eval()``"""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(attr=name))):
            return name in MODES
    return False


def _targets(statement: ast.stmt) -> set[str]:
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _gives(statement: ast.stmt) -> set[str]:
    """The names that an import or a constant of the script's top gives."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Assign(value=ast.Constant()):
            return set(names_set(statement))
    return set()


def _is_plain(statement: ast.stmt) -> bool:
    """Whether it needs no torch, and no file that lies beside the script."""
    roots = []
    if isinstance(statement, ast.Import):
        roots = [one.name.partition(".")[0] for one in statement.names]
    elif isinstance(statement, ast.ImportFrom):
        roots = [(statement.module or "").partition(".")[0]]
    return all(root in sys.stdlib_module_names or root == "numpy" for root in roots)


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """What the parameters of a function are given by a call, or by default."""
    parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    defaults = function.args.defaults
    given = dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True))
    given |= dict(zip(parameters, call.args, strict=False))
    return given | {word.arg: word.value for word in call.keywords if word.arg}


def _constant(name: str, value: ast.expr) -> ast.stmt:
    return ast.fix_missing_locations(ast.Assign([ast.Name(name, ast.Store())], value, lineno=1))


def _loaded(node: ast.stmt) -> set[str]:
    """The names that a statement reads; also those that it returns."""
    return names_loaded(ast.fix_missing_locations(_Unreturned().visit(copy.deepcopy(node))))


class _Unreturned(ast.NodeTransformer):
    """A return outside of a function is no statement that compiles: what is returned stands by itself."""

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        """``return x`` → ``x``"""
        return ast.copy_location(ast.Expr(node.value or ast.Constant(None)), node)


def _returns(statement: ast.stmt) -> bool:
    return any(isinstance(one, ast.Return) and one.value is not None for one in ast.walk(statement))


def _shown(tree: ast.Module, call: ast.Call) -> str:
    """What the caller sets to what it is returned; "evaluation" where it sets nothing."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign) and one.value is call:
            return ast.unparse(one.targets[0]).strip("()")
    return "evaluation"
