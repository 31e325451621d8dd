"""Rewrite an evaluation's statements: measured numbers replace what torch computes; unused statements are dropped."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Sequence
from typing import Any

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.wording import place_of
from port.scripts.writing.evaluated_numbers import TakenNumber
from port.scripts.writing.sums_on_device import ReplacedSum
from port.scripts.writing.taken_statements import called_name, names_loaded, names_set

MODES = ("eval", "train", "requires_grad_")
GUARDS = ("no_grad", "inference_mode", "set_grad_enabled", "autocast")


def without_guards(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A block with the bodies of ``with torch.no_grad():`` unwrapped, and without its docstring."""
    found: list[ast.stmt] = []
    for one in block:
        match one:
            case ast.With(items, body) if all(
                isinstance(item.context_expr, ast.Call) and called_name(item.context_expr) in GUARDS for item in items
            ):
                found += without_guards(body)
            case ast.Expr(ast.Constant(str())):
                pass
            case _:
                found.append(one)
    return found


def batch_of(loop: ast.For, begun: Event) -> tuple[ast.expr, str]:
    """The variable that holds the batch, and the loader's name."""
    iterated, target = loop.iter, loop.target
    while isinstance(iterated, ast.Call) and called_name(iterated) in ("enumerate", "tqdm", "track"):
        if called_name(iterated) == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        iterated = iterated.args[0]
    if not isinstance(iterated, ast.Name):
        raise UsageError(f"{place_of(begun)} does not loop over the evaluation's batches by a loader's name")
    batch = copy.deepcopy(target)
    for one in ast.walk(batch):
        if isinstance(one, ast.Name | ast.Tuple | ast.List):
            one.ctx = ast.Load()
    return batch, iterated.id


def with_numbers(block: Sequence[ast.stmt], taken: Sequence[TakenNumber], begun: Event) -> list[ast.stmt]:
    """The loop's statements with ``numbers[n].item()`` where the n-th number leaves torch, ``numbers[n]`` in sums.

    Raises:
        UsageError: a number leaves torch elsewhere, or is not a number.
    """
    found: list[Any] = copy.deepcopy(list(block))
    for number, one in enumerate(taken):
        if one.call is None or not isinstance(one.value, bool | int | float) or one.where["file"] != begun["file"]:
            raise UsageError(f"{place_of(one.where)} takes something out of torch that is not a number of the batch")
        text = ast.unparse(ast.parse(one.where["text"], mode="eval"))
        replaced = (ReplacedSum if one.is_added else _Replaced)(text, one.where["line"], number)
        found = [replaced.visit(statement) for statement in found]
        if replaced.count != 1:
            raise UsageError(f"{place_of(one.where)} takes a number out of torch, but not once for each batch")
    return found


class _Replaced(ast.NodeTransformer):
    """Replaces an expression at a line with a measured number."""

    def __init__(self, text: str, line: int, number: int) -> None:
        self._text, self._line, self._number, self.count = text, line, number, 0

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the expression, or visit its children."""
        is_there = isinstance(node, ast.Call) and node.lineno <= self._line <= (node.end_lineno or node.lineno)
        if is_there and ast.unparse(node) == self._text:
            self.count += 1
            return ast.copy_location(ast.parse(f"numbers[{self._number}].item()", mode="eval").body, node)
        return super().generic_visit(node)


def needed_inside(block: Sequence[ast.stmt], after: Sequence[ast.stmt], models: Collection[str] = ()) -> list[ast.stmt]:
    """A loop's statements without unused plain assignments and without moves to a device.

    A call of one of the models whose result is discarded is dropped, too.
    """
    kept = [_OnTheHost().visit(one) for one in block if not _calls_one_of(models, one)]
    behind = {name for one in after for name in loaded(one)}
    while True:
        left = [one for place, one in enumerate(kept) if not _is_idle(one, [*kept[:place], *kept[place + 1 :]], behind)]
        if len(left) == len(kept):
            return left
        kept = left


class _OnTheHost(ast.NodeTransformer):
    """Drops moves to a device: ``labels.to(device)`` → ``labels``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Unwrap a method call that moves a tensor to a device."""
        match self.generic_visit(node):
            case ast.Call(ast.Attribute(value, "cuda" | "cpu")):
                return value
            case ast.Call(ast.Attribute(value, "to"), [ast.Name() | ast.Constant(str()), *_]):
                return value
            case ast.Call(ast.Attribute(value, "to"), [ast.Attribute(ast.Name(name)), *_]) if name != "torch":
                return value
        return node


def _calls_one_of(models: Collection[str], statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Call(ast.Name(name))):
            return name in models
    return False


def _is_idle(statement: ast.stmt, others: Sequence[ast.stmt], behind: set[str]) -> bool:
    """Whether a statement only sets values that are never read."""
    match statement:
        case ast.Assign([target], value) if ast.unparse(target) == ast.unparse(value):
            return True
        case ast.Assign() | ast.AnnAssign():
            return not set(names_set(statement)) & behind.union(*(loaded(one) for one in others))
        case ast.If(_, body, orelse):
            return all(_is_idle(one, others, behind) for one in [*body, *orelse])
    return switches(statement) or isinstance(statement, ast.Pass)


def set_first(loop: ast.For) -> set[str]:
    """Names that a loop sets before it reads them: its target, and the targets of plain assignments."""
    found, read = targets(loop.target), set[str]()
    for one in loop.body:
        read |= loaded(one) - found
        if isinstance(one, ast.Assign | ast.AnnAssign):
            found |= set(names_set(one)) - read
    return found


def read_behind(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A function's statements after a loop, without trailing plain assignments that nothing reads."""
    kept = list(block)
    while kept and isinstance(kept[-1], ast.Assign | ast.AnnAssign):
        del kept[-1]
    return kept


def needed_before(block: Sequence[ast.stmt], needed: set[str]) -> list[ast.stmt]:
    """The statements of a block that set names needed after it; only the last one for each name."""
    found = []
    for one in reversed(block):
        sets = set(names_set(one))
        if sets & needed and not switches(one):
            found.append(one)
            needed = (needed - sets if isinstance(one, ast.Assign | ast.AnnAssign) else needed) | loaded(one)
    return found[::-1]


def switches(statement: ast.stmt) -> bool:
    """Whether a statement switches a model's mode: ``model.eval()``."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(attr=name))):
            return name in MODES
    return False


def targets(statement: ast.stmt | ast.expr) -> set[str]:
    """Return the names that a statement assigns."""
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def arguments_of(function: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """The arguments of a call by the function's parameters, with defaults."""
    if isinstance(function, ast.Module):
        return {}
    parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    defaults = function.args.defaults
    arguments = dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True))
    arguments |= dict(zip(parameters, call.args, strict=False))
    return arguments | {word.arg: word.value for word in call.keywords if word.arg}


def loaded(node: ast.stmt) -> set[str]:
    """The names that a statement reads, including those that it returns."""
    return names_loaded(ast.fix_missing_locations(_Staying().visit(copy.deepcopy(node))))


class _Staying(ast.NodeTransformer):
    """Removes return, break and continue, which do not compile outside of a function or a loop."""

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        """Write ``x`` for ``return x``."""
        return ast.copy_location(ast.Expr(node.value or ast.Constant(None)), node)

    def visit_Break(self, node: ast.Break) -> ast.stmt:
        """Write ``pass`` for ``break``."""
        return ast.copy_location(ast.Pass(), node)

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        """Write ``pass`` for ``continue``."""
        return ast.copy_location(ast.Pass(), node)


def number_names(block: Sequence[ast.stmt], count: int) -> tuple[str, ...]:
    """The script's name for the sum of each number."""
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
    """The indices of the numbers in an expression."""
    found = []
    for one in ast.walk(value):
        match one:
            case ast.Subscript(ast.Name("numbers"), ast.Constant(int() as place)):
                found.append(place)
    return found
