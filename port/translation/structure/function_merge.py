"""Merge several calls of one function into one body; what only some of them do goes under the original's condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import FunctionType

from port.translation.ir import syntax
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.anti_unify import Differ, Holes, PartialHoles, unified
from port.translation.structure.branches import OriginalTest, branches_of
from port.translation.structure.case_alignment import assigned_in
from port.translation.structure.case_conditions import negation
from port.translation.structure.kept_comments import is_worth_keeping
from port.translation.structure.number_statements import AskedNumbers, NoNumbers, NumberStatement, asked_by
from port.translation.structure.settled_lengths import with_lengths_settled
from port.translation.structure.source_map import statement_at
from port.translation.structure.statement_merge import aligned, alike
from port.translation.structure.written_body import Body

Calls = frozenset[int]
"""Numbers of calls."""


@dataclass(frozen=True)
class _Row:
    """A statement, in the version of each call that has it."""

    trees: tuple[syntax.Stmt, ...]
    whose: Calls
    place: SourceLocation | None


@dataclass(frozen=True)
class MergedCalls:
    """One body for several calls.

    Attributes:
        statements: the function's statements; the last one returns.
        reads: names of the written function's parameters that the conditions read.
        lacking: hole numbers → the calls that lack the statements with those holes.
    """

    statements: tuple[syntax.Stmt, ...]
    reads: frozenset[str] = frozenset()
    lacking: Mapping[int, Calls] = field(default_factory=dict)


def merged_calls(
    function: FunctionType, bodies: Sequence[Body], parameters: Mapping[str, bool], holes: Holes
) -> MergedCalls:
    """Merge the bodies of several calls.

    Args:
        function: the original's function.
        bodies: the calls' bodies, whose lengths are not settled.
        parameters: the written function's parameters → whether every call passes plain numbers only.
        holes: collects the numbers in which the calls differ.

    Raises:
        Differ: the calls do different things, and no condition decides which.
    """
    settled = [with_lengths_settled(body) for body in bodies]
    try:
        return MergedCalls(unified([_definition(body) for body in settled], holes).body)
    except Differ:
        if len(bodies) == 1:
            raise
    return _Merging(function, bodies, parameters, holes).merged()


def _definition(body: Body) -> syntax.FunctionDef:
    assert body.returns is not None
    return syntax.FunctionDef("", (), (*body.statements, syntax.Return(body.returns)))


class _Merging:
    """A merge in progress.

    Attributes:
        ran: (line of a branch, whether its test held) → the calls that took it.
        lacking: see `MergedCalls`.
    """

    def __init__(
        self, function: FunctionType, bodies: Sequence[Body], parameters: Mapping[str, bool], holes: Holes
    ) -> None:
        self.function, self.parameters, self.holes = function, parameters, holes
        self.bodies = list(bodies)
        self.everybody = frozenset(range(len(bodies)))
        self.branches = branches_of(function)
        self.ran: dict[tuple[int, bool], set[int]] = {}
        self.lacking: dict[int, Calls] = {}
        for number, body in enumerate(bodies):
            for place in body.places:
                for test, holds in self._around(place):
                    self.ran.setdefault((test.line, holds), set()).add(number)

    def merged(self) -> MergedCalls:
        asked = self._asked()
        self.bodies = [_with_numbers(body, asked) for body in self.bodies]
        read = frozenset[str]().union(*(each.read for each in asked.values()))
        rows = self._rows(read)
        statements: list[syntax.Stmt] = []
        for tests, some in groupby(rows, key=self._tests_of):
            own = list(some)
            made = tuple(map(self._unified, own))
            if not tests:
                statements += made
                continue
            if all(isinstance(statement, syntax.Comment) for statement in made):
                continue
            said = [asked[test.line].test if holds else negation(asked[test.line].test) for test, holds in tests]
            test = said[0] if len(said) == 1 else syntax.BoolOp("and", tuple(said))
            last = statements[-1] if statements else None
            if isinstance(last, syntax.If) and not last.orelse and negation(test) == last.test:
                statements[-1] = replace(last, orelse=made)
            else:
                statements += (*self._comments(tests[0][0]), syntax.If(test, made))
        returns = [body.returns for body in self.bodies]
        returned = unified([each for each in returns if each is not None], self.holes)
        inside = {name for each in asked.values() for before in each.before for name in before.read | before.assigned}
        reads = (read | inside) & self.parameters.keys()
        return MergedCalls((*statements, syntax.Return(returned)), reads, self.lacking)

    def _comments(self, test: OriginalTest) -> list[syntax.Stmt]:
        """The comment lines above a branch of the original."""
        original = statement_at(SourceLocation(self.branches.file, test.line))
        lines = () if original is None else filter(is_worth_keeping, original.comments)
        return list(map(syntax.Comment, lines))

    # %% Which conditions

    def _around(self, place: SourceLocation | None) -> list[tuple[OriginalTest, bool]]:
        return [] if place is None else self.branches.around(place)

    def _tests_of(self, row: _Row) -> tuple[tuple[OriginalTest, bool], ...]:
        """The branches that limit a row to some calls, outermost first; none for a row that all calls have.

        Raises:
            Differ: there are none, or other calls took them too.
        """
        if row.whose == self.everybody:
            return ()
        around = [each for each in self._around(row.place) if self._took(each) != self.everybody]
        if not around or self._took(around[0]) != row.whose:
            raise Differ
        return tuple(reversed(around))

    def _took(self, branch: tuple[OriginalTest, bool]) -> Calls:
        test, holds = branch
        return frozenset(self.ran[test.line, holds])

    def _asked(self) -> dict[int, AskedNumbers]:
        """The conditions that are needed, by line."""
        tensors = {name for name, are_numbers in self.parameters.items() if not are_numbers}
        asked: dict[int, AskedNumbers] = {}
        for row in self._rows():
            for test, _ in self._tests_of(row):
                try:
                    asked[test.line] = asked_by(self.function, test, self._lengths(), tensors)
                except NoNumbers:
                    raise Differ from None
        return asked

    def _lengths(self) -> set[str]:
        """The lengths that have a name in every call."""
        found = [
            {name for statement in body.statements if _reads_shape(statement) for name in assigned_in(statement)}
            for body in self.bodies
        ]
        return set.intersection(*found)

    # %% Side by side

    def _rows(self, read: frozenset[str] = frozenset()) -> list[_Row]:
        """The statements of all calls, merged wherever possible.

        Args:
            read: the names that the conditions read.
        """
        settled = [with_lengths_settled(body, read) for body in self.bodies]
        places = {
            id(statement): place
            for body in settled
            for statement, place in zip(body.statements, body.places, strict=True)
        }
        groups: list[list[int]] = []
        for number, body in enumerate(settled):
            known = next((group for group in groups if alike(settled[group[0]].statements, body.statements)), None)
            if known is None:
                groups.append([number])
            else:
                known.append(number)
        rows: list[tuple[list[list[syntax.Stmt]], set[int]]] = []
        for number, group in enumerate(groups):
            own = [[settled[call].statements[k] for call in group] for k in range(len(settled[group[0]].statements))]
            rows = aligned(rows, own, number)
        made = []
        for trees, whose in rows:
            calls = [call for group in sorted(whose) for call in groups[group]]
            several = dict(zip(calls, (tree for together in trees for tree in together), strict=True))
            place = places.get(id(trees[0][0]))
            made.append(_Row(tuple(several[call] for call in sorted(several)), frozenset(calls), place))
        return made

    def _unified(self, row: _Row) -> syntax.Stmt:
        if row.whose == self.everybody:
            return unified(row.trees, self.holes)
        known = len(self.holes.found)
        made = unified(row.trees, PartialHoles(self.holes, sorted(row.whose), len(self.everybody)))
        self.lacking |= dict.fromkeys(range(known, len(self.holes.found)), self.everybody - row.whose)
        return made


def _with_numbers(body: Body, asked: Mapping[int, AskedNumbers]) -> Body:
    """Insert the statements that compute the conditions' numbers, each where the original has it.

    Raises:
        Differ: one of them would read a name before it exists, or overwrite an array's name.
    """
    needed: dict[int, NumberStatement] = {each.line: each for one in asked.values() for each in one.before}
    statements, places = list(body.statements), list(body.places)
    file = next((place.file for place in places if place is not None), "")
    arrays = {name for statement in statements if not _reads_shape(statement) for name in assigned_in(statement)}
    for line, number in sorted(needed.items(), reverse=True):
        if number.assigned & arrays:
            raise Differ
        later = (k for k, place in enumerate(places) if place is not None and place.file == file and place.line > line)
        where, place = next(later, len(statements)), SourceLocation(file, line)
        original = statement_at(place)
        comments = () if original is None else filter(is_worth_keeping, original.comments)
        own = (*map(syntax.Comment, comments), number.statement)
        statements[where:where] = own
        places[where:where] = [place] * len(own)
    return replace(body, statements=tuple(statements), places=tuple(places))


def _reads_shape(statement: syntax.Stmt) -> bool:
    """Whether a statement names lengths: ``B, T, C = x.shape``."""
    nodes = syntax.walk(statement) if isinstance(statement, syntax.Assign) else ()
    return any(isinstance(node, syntax.Attribute) and node.attr == "shape" for node in nodes)
