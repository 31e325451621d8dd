"""What a script prints while it trains, in its own lines: its sums, its losses, its names.

Only what reads the loss, counts and options is taken over; what reads a tensor, an optimizer or a clock is left to a
person. A sum stays on the device until it is printed: ``total += loss.item()`` adds without waiting for the update.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from port.scripts.events import Event
from port.scripts.writing.evaluation_lines import arguments_of, loaded, without_guards
from port.scripts.writing.own_calls import Function, is_call_of
from port.scripts.writing.taken_statements import names_set, runs

PHASES = ("begun", "each", "before", "after")
"""Before a pass, behind each update, behind the pass, behind the evaluation."""


@dataclass(frozen=True)
class OwnTelling:
    """Statements of a script, with the names of the written loop.

    Attributes:
        begun: before a pass: sums that begin at 0.
        each: behind each update.
        before: behind a pass, before the evaluation.
        after: behind the evaluation.
        evaluated: what the evaluation's result is called there; None where nothing reads it.
        lines: of the script that are taken over.
    """

    begun: tuple[str, ...]
    each: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    evaluated: str | None
    lines: frozenset[int]


@dataclass(frozen=True)
class WrittenNames:
    """What a script's names are in the written loop.

    Attributes:
        loss: the script's name of what it takes the gradient of; it is ``loss`` there.
        known: of the epoch, the options, the loaders, of what counts the batches.
        batch: of the parts of a batch; only their lengths are known there.
        reserved: names of the written loop that no sum may take.
    """

    loss: str
    known: Mapping[str, str]
    batch: Mapping[str, str]
    reserved: Collection[str]


@dataclass(frozen=True)
class WrittenEvaluation:
    """The evaluation as the written loop has it.

    Attributes:
        where: a line of it in the script.
        lines: of the script that are taken over with it.
        names: of what it gives; empty where it gives nothing, or not in every epoch.
    """

    where: Event
    lines: Collection[int]
    names: tuple[str, ...]


@dataclass
class _Taken:
    """A statement that can be taken over: as the written loop has it, what it sets, and what it reads."""

    phase: str
    text: str
    sets: set[str]
    reads: set[str]
    lines: range
    tells: bool


def own_telling(
    tree: ast.Module,
    epoch: Sequence[ast.stmt],
    batches: ast.For,
    names: WrittenNames,
    evaluation: WrittenEvaluation | None,
    file: str,
) -> OwnTelling | None:
    """What a script's loop prints; None where it prints nothing that can be taken over.

    Args:
        tree: the script.
        epoch: the statements of one epoch.
        batches: the loop over training's batches.
        names: of the script and of the written loop.
        evaluation: None where none is taken over.
        file: the script's.
    """
    reader = _Reader(tree, batches, names, evaluation, file)
    reader.read(epoch)
    found = _needed(reader.found)
    if not any(one.tells for one in found):
        return None
    begun, each, before, after = (tuple(one.text for one in found if one.phase == phase) for phase in PHASES)
    reads_evaluation = evaluation is not None and any({*evaluation.names} & one.reads for one in found)
    return OwnTelling(
        begun,
        each,
        before,
        after,
        ", ".join(evaluation.names) if evaluation is not None and reads_evaluation else None,
        frozenset(line for one in found for line in one.lines),
    )


def _needed(found: Sequence[_Taken]) -> list[_Taken]:
    """What is told, and the sums that lead there."""
    needed = {name for one in found if one.tells for name in one.reads}
    while True:
        more = {name for one in found if one.sets & needed for name in one.reads}
        if more <= needed:
            return [one for one in found if one.tells or one.sets & needed]
        needed |= more


class _Reader:
    """Goes through an epoch, and takes what reads nothing but known names."""

    def __init__(
        self,
        tree: ast.Module,
        batches: ast.For,
        names: WrittenNames,
        evaluation: WrittenEvaluation | None,
        file: str,
    ) -> None:
        self._tree, self._batches, self._names = tree, batches, names
        self._evaluation, self._file = evaluation, file
        self._known = dict(names.known)
        self._phase = "begun"
        self.found: list[_Taken] = []

    def read(self, block: Sequence[ast.stmt]) -> None:
        """The statements of a block, one after another."""
        for one in without_guards(block):
            called = self._function_called(one)
            if one is self._batches:
                self._phase = "each"
                for inner in without_guards(self._batches.body):
                    if not isinstance(inner, ast.Assign | ast.AnnAssign):
                        self._take(inner)
                self._phase = "before"
            elif self._is_evaluation(one):
                self._phase = "after"
                assert self._evaluation is not None
                self._known |= {name: name for name in self._evaluation.names}
            elif called is not None:
                self._read_function(one, *called)
            elif self._phase != "begun" or _is_first_value(one):
                self._take(one)

    def _is_evaluation(self, statement: ast.stmt) -> bool:
        if self._evaluation is None:
            return False
        return statement.lineno in self._evaluation.lines or runs(statement, self._evaluation.where)

    def _function_called(self, statement: ast.stmt) -> tuple[Function, ast.Call] | None:
        """The function that has the loop over the batches, where a statement is its call."""
        if not isinstance(statement, ast.Expr | ast.Assign) or not isinstance(statement.value, ast.Call):
            return None
        for one in self._tree.body:
            if isinstance(one, Function) and any(inner is self._batches for inner in ast.walk(one)):
                return (one, statement.value) if is_call_of(statement.value, one.name, self._file) else None
        return None

    def _read_function(self, statement: ast.stmt, function: Function, call: ast.Call) -> None:
        """What a function tells, with what its call gives; what it returns has its caller's name behind it."""
        outer = self._known
        given = arguments_of(function, call)
        passed = {
            name: outer[value.id] for name, value in given.items() if isinstance(value, ast.Name) and value.id in outer
        }
        self._known = {name: said for name, said in outer.items() if name not in given} | passed
        returned = next((one.value for one in function.body if isinstance(one, ast.Return)), None)
        self.read([one for one in function.body if not isinstance(one, ast.Return)])
        if isinstance(statement, ast.Assign) and returned is not None:
            made = ast.Assign(statement.targets, returned)
            self._take(ast.fix_missing_locations(ast.copy_location(made, statement)), {**outer, **self._known})
        self._known = outer | {name: said for name, said in self._known.items() if name not in given}

    def _take(self, statement: ast.stmt, known: Mapping[str, str] | None = None) -> None:
        """Keep a statement if all that it reads is known; what it sets is known then, and is not where it is left."""
        told = _prints_of(statement)
        tells, statement = told is not None, told or statement
        sets = set(names_set(statement))
        if not tells and not isinstance(statement, ast.Assign | ast.AugAssign):
            return
        known = dict(self._known if known is None else known)
        said = {name: f"{name}_so_far" if name in self._names.reserved else name for name in sets}
        reads = loaded(statement) - set(vars(builtins))
        written = _Written(known | said, self._names, sums=not tells)
        text = ast.unparse(ast.fix_missing_locations(written.visit(copy.deepcopy(statement))))
        is_known = not (reads - known.keys() - {self._names.loss} - self._names.batch.keys()) and not written.is_strange
        if not is_known:
            self._known = {name: one for name, one in self._known.items() if name not in sets}
            return
        lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        self.found.append(_Taken(self._phase, text, sets, reads, lines, tells))
        self._known |= said


class _Written(ast.NodeTransformer):
    """A statement under the written loop's names.

    Attributes:
        is_strange: whether it reads more of a batch than its length.
    """

    def __init__(self, known: Mapping[str, str], names: WrittenNames, *, sums: bool) -> None:
        self._known, self._names, self._sums = known, names, sums
        self.is_strange = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """How many examples a batch has; and in a sum, the loss without waiting for it."""
        match node:
            case ast.Call(ast.Name("len"), [ast.Name(name)]) if name in self._names.batch:
                return self._length(name)
            case ast.Call(ast.Attribute(ast.Name(name), "size"), [ast.Constant(0)]) if name in self._names.batch:
                return self._length(name)
            case ast.Call(ast.Attribute(ast.Name(name), "item"), []) if name == self._names.loss and self._sums:
                return ast.Name("loss", ast.Load())
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """``x.shape[0]``"""
        match node:
            case ast.Subscript(ast.Attribute(ast.Name(name), "shape"), ast.Constant(0)) if name in self._names.batch:
                return self._length(name)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name of the script's."""
        if node.id == self._names.loss:
            return ast.Name("loss", node.ctx)
        self.is_strange |= node.id in self._names.batch and node.id not in self._known
        said = ast.parse(self._known.get(node.id, node.id), mode="eval").body
        if isinstance(said, ast.Name):
            said.ctx = node.ctx
        return said

    def _length(self, name: str) -> ast.expr:
        return ast.parse(f"len({self._names.batch[name]})", mode="eval").body


def _prints_of(statement: ast.stmt) -> ast.stmt | None:
    """A statement that prints, without what else is done under its conditions; None where it prints nothing."""
    match statement:
        case ast.Expr(ast.Call(ast.Name("print"))):
            return statement
        case ast.If(test, body, []):
            prints = [told for one in body if (told := _prints_of(one)) is not None]
            return ast.copy_location(ast.If(test, prints, []), statement) if prints else None
    return None


def _is_first_value(statement: ast.stmt) -> bool:
    """``total = 0.0``"""
    if not isinstance(statement, ast.Assign):
        return False
    values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
    return all(isinstance(one, ast.Constant) and isinstance(one.value, int | float) for one in values)
