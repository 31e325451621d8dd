"""Copy what a script prints while it trains, and where it leaves its loop: its sums, losses, names.

Only statements that read the loss, counts and options are copied; those that read a tensor, an optimizer or a clock are
left to the user. A sum stays on the device until it is printed: ``total += loss.item()`` adds without waiting for the
update.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from port.scripts.events import Event
from port.scripts.writing.evaluation_lines import arguments_of, without_guards
from port.scripts.writing.own_calls import Function, is_call_of
from port.scripts.writing.reported_statements import WrittenNames, jumps_in, prints_in, reads_of, reduced, written
from port.scripts.writing.taken_statements import names_set, runs

PHASES = ("begun", "first", "each", "before", "after")
"""Before a pass, before each update, after it, after the pass, after the evaluation."""


@dataclass(frozen=True)
class OwnTelling:
    """Statements of a script, in the names of the written loop.

    Attributes:
        begun: before a pass: sums that start at 0.
        first: before each update: where a batch, or the rest of a pass, is skipped.
        each: after each update.
        before: after a pass, before the evaluation.
        after: after the evaluation.
        evaluated: the name of the evaluation's result there; None if nothing reads it.
        lines: the script's lines that are copied.
        attributes: the attributes that these read, each by its line and column.
        tells: whether anything is printed.
    """

    begun: tuple[str, ...]
    first: tuple[str, ...]
    each: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    evaluated: str | None
    lines: frozenset[int]
    attributes: frozenset[tuple[int, int]]
    tells: bool


@dataclass(frozen=True)
class UpdateLines:
    """The lines of a script's update.

    Attributes:
        computes: the lines that lead to the loss.
        changes: the lines that change weights, averages and schedules.
    """

    computes: Sequence[Event]
    changes: Sequence[Event]


@dataclass(frozen=True)
class WrittenEvaluation:
    """The evaluation in the written loop.

    Attributes:
        where: its line in the script.
        lines: the script's lines that are copied with it.
        names: the names of its results; empty if it returns nothing, or not in every epoch.
    """

    where: Event
    lines: Collection[int]
    names: tuple[str, ...]


@dataclass
class _Taken:
    """A copied statement: its place and text in the written loop, what it sets, and what it reads."""

    phase: str
    statement: ast.stmt
    text: str
    sets: set[str]
    reads: set[str]

    @property
    def tells(self) -> bool:
        return prints_in(self.statement)

    @property
    def is_needed(self) -> bool:
        """Whether it is needed for its own effect, not only for the names that it sets."""
        return self.tells or jumps_in(self.statement)

    @property
    def lines(self) -> set[int]:
        plain = [one for one in ast.walk(self.statement) if isinstance(one, ast.stmt) and not isinstance(one, ast.If)]
        return {line for one in plain for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}

    @property
    def attributes(self) -> set[tuple[int, int]]:
        return {(one.lineno, one.col_offset) for one in ast.walk(self.statement) if isinstance(one, ast.Attribute)}


def own_telling(
    tree: ast.Module,
    epoch: Sequence[ast.stmt],
    batches: ast.For,
    update: UpdateLines,
    names: WrittenNames,
    evaluation: WrittenEvaluation | None,
    file: str,
) -> OwnTelling | None:
    """What a script's loop prints, and where it is left; None if nothing of that can be copied.

    Args:
        tree: the script.
        epoch: the statements of one epoch.
        batches: the loop over training's batches.
        update: the lines of the update made from each batch.
        names: the names in the script and in the written loop.
        evaluation: the evaluation; None if none is copied.
        file: the script's file.
    """
    reader = _Reader(tree, batches, update, names, evaluation, file)
    reader.read(epoch)
    found = _needed(reader.found)
    if not any(one.is_needed for one in found):
        return None
    begun, first, each, before, after = (tuple(one.text for one in found if one.phase == phase) for phase in PHASES)
    reads_evaluation = evaluation is not None and any({*evaluation.names} & one.reads for one in found)
    return OwnTelling(
        begun,
        first,
        each,
        before,
        after,
        ", ".join(evaluation.names) if evaluation is not None and reads_evaluation else None,
        frozenset(line for one in found for line in one.lines),
        frozenset(place for one in found for place in one.attributes),
        any(one.tells for one in found),
    )


def _needed(found: Sequence[_Taken]) -> list[_Taken]:
    """The statements that print or leave the loop, and the sums that they read."""
    needed = {name for one in found if one.is_needed for name in one.reads}
    while True:
        more = {name for one in found if one.sets & needed for name in one.reads}
        if more <= needed:
            return [one for one in found if one.is_needed or one.sets & needed]
        needed |= more


class _Reader:
    """Reads an epoch, and copies the statements that read only known names."""

    def __init__(
        self,
        tree: ast.Module,
        batches: ast.For,
        update: UpdateLines,
        names: WrittenNames,
        evaluation: WrittenEvaluation | None,
        file: str,
    ) -> None:
        self._tree, self._batches, self._update, self._names = tree, batches, update, names
        self._evaluation, self._file = evaluation, file
        self._known = dict(names.known)
        self._phase = "begun"
        self.found: list[_Taken] = []

    def read(self, block: Sequence[ast.stmt]) -> None:
        """Read the statements of a block in order."""
        for one in without_guards(block):
            called = self._function_called(one)
            if one is self._batches:
                self._read_batches()
                self._phase = "before"
            elif self._is_evaluation(one):
                self._phase = "after"
                assert self._evaluation is not None
                self._known |= {name: name for name in self._evaluation.names}
            elif called is not None:
                self._read_function(one, *called)
            else:
                self._take(one)

    def _read_batches(self) -> None:
        """Read the loop over the batches, which may be left before an update or after it, but not within."""
        body = without_guards(self._batches.body)
        begins = [place for place, one in enumerate(body) if any(runs(one, line) for line in self._update.computes)]
        ends = [place for place, one in enumerate(body) if any(runs(one, line) for line in self._update.changes)]
        is_plain = bool(begins and ends) and not self._batches.orelse
        self._phase = "each"
        for place, one in enumerate(body):
            if isinstance(one, ast.Assign | ast.AnnAssign):
                continue
            if is_plain and place < begins[0]:
                self._keep(reduced(one, ast.Break, ast.Continue), phase="first")
                self._take(one)
            elif not is_plain or place <= ends[-1] or not self._keep(reduced(one, ast.Expr, ast.Break)):
                self._take(one)
                if is_plain and place > ends[-1]:
                    self._keep(reduced(one, ast.Break))

    def _is_evaluation(self, statement: ast.stmt) -> bool:
        if self._evaluation is None:
            return False
        return statement.lineno in self._evaluation.lines or runs(statement, self._evaluation.where)

    def _function_called(self, statement: ast.stmt) -> tuple[Function, ast.Call] | None:
        """The function that has the loop over the batches, if a statement calls it."""
        if not isinstance(statement, ast.Expr | ast.Assign) or not isinstance(statement.value, ast.Call):
            return None
        for one in self._tree.body:
            if isinstance(one, Function) and any(inner is self._batches for inner in ast.walk(one)):
                return (one, statement.value) if is_call_of(statement.value, one.name, self._file) else None
        return None

    def _read_function(self, statement: ast.stmt, function: Function, call: ast.Call) -> None:
        """Read what a function prints, with its call's arguments; its result gets the caller's name afterwards."""
        outer = self._known
        arguments = arguments_of(function, call)
        passed = {
            name: outer[value.id]
            for name, value in arguments.items()
            if isinstance(value, ast.Name) and value.id in outer
        }
        self._known = {name: said for name, said in outer.items() if name not in arguments} | passed
        returned = next((one.value for one in function.body if isinstance(one, ast.Return)), None)
        self.read([one for one in function.body if not isinstance(one, ast.Return)])
        if isinstance(statement, ast.Assign) and returned is not None:
            made = ast.Assign(statement.targets, returned)
            made = ast.fix_missing_locations(ast.copy_location(made, statement))
            self._keep(made, known={**outer, **self._known})
        self._known = outer | {name: said for name, said in self._known.items() if name not in arguments}

    def _take(self, statement: ast.stmt) -> None:
        """Keep a sum, or a print."""
        is_sum = isinstance(statement, ast.Assign | ast.AugAssign)
        kept = statement if is_sum else reduced(statement, ast.Expr)
        if not self._keep(kept):
            self._forget(names_set(statement))

    def _forget(self, names: Collection[str]) -> None:
        """Drop names set by a statement that is not copied: they are no longer known."""
        self._known = {name: one for name, one in self._known.items() if name not in names}

    def _keep(
        self, statement: ast.stmt | None, *, known: Mapping[str, str] | None = None, phase: str | None = None
    ) -> bool:
        """Keep a statement if it reads only known names; the names that it sets are known if it is kept, else not."""
        if statement is None:
            return False
        sets = set(names_set(statement))
        known = dict(self._known if known is None else known)
        said = {name: f"{name}_so_far" if name in self._names.reserved else name for name in sets}
        reads = reads_of(statement) - set(vars(builtins))
        text = written(statement, known | said, self._names)
        if text is None or reads - known.keys() - {self._names.loss} - self._names.batch.keys():
            self._forget(sets)
            return False
        self.found.append(_Taken(phase or self._phase, statement, text, sets, reads))
        # A name set under a condition may be unset.
        self._known |= {name: one for name, one in said.items() if name in known or not isinstance(statement, ast.If)}
        return True
