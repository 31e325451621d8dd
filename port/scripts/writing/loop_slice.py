"""Slice a script's loop into a generator: some statements become yields, and only what leads to them is kept.

This is a backward program slice, with the names live after each statement. Whatever decides whether the loop continues
(``break``, the condition around it) belongs to the slice as well.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent

from port.errors import UsageError
from port.scripts.writing.original_source import source_text
from port.scripts.writing.taken_statements import (
    called_name,
    calls_in,
    holds,
    is_seed,
    kills,
    names_loaded,
    names_set,
    targets_of,
)

REPORTING = {
    *("print", "train", "eval", "log", "info", "debug", "warning", "write", "add_scalar", "refresh"),
    *("set_postfix", "set_postfix_str", "set_description", "set_description_str"),
}
"""Methods that report something, or change nothing on which the loop's control flow depends."""


@dataclass(frozen=True)
class Yielded:
    """The replacement of a statement: ``yield x, y``, and the names that it needs."""

    text: str
    needed: frozenset[str]
    nodes: tuple[ast.AST, ...] = ()
    word: str = "yield"

    @classmethod
    def of(cls, expressions: Sequence[ast.expr], text: str | None = None) -> Yielded:
        """A replacement that yields expressions; ``text`` is their text, if different."""
        said = ", ".join(map(ast.unparse, expressions)) + "," * (len(expressions) == 1)
        needed = frozenset(name for one in expressions for name in names_loaded(one))
        return cls(said if text is None else text, needed, tuple(expressions))


@dataclass(frozen=True)
class LoopSlice:
    """The kept statements.

    Attributes:
        lines: their source.
        nodes: the statements.
        needed: names that they need from elsewhere.
    """

    lines: tuple[str, ...]
    nodes: tuple[ast.AST, ...]
    needed: frozenset[str]

    def function(self, name: str, parameters: Sequence[str] = ()) -> str:
        """The generator."""
        return f"def {name}({', '.join(parameters)}):\n{indent(chr(10).join(self.lines), '    ')}"


def slice_of(
    before: Sequence[ast.stmt],
    block: Sequence[ast.stmt],
    points: Mapping[ast.stmt, Yielded],
    rows: Sequence[str],
    others: Mapping[ast.stmt, ast.stmt | None] | None = None,
    heads: Mapping[ast.stmt, str] | None = None,
) -> LoopSlice:
    """The slice of consecutive statements.

    Args:
        before: the statements before them; those that initialise a name set again in the block are kept.
        block: the statements; the loop is among them.
        points: the yields, by the statement that each replaces.
        rows: the script's lines.
        others: replacements of the script's statements; None is nothing.
        heads: replacements of loop heads: ``for _ in range(updates):``.

    Raises:
        UsageError: the loop's control flow, or what it yields, depends on a replaced statement.
    """
    slicing = _Slicing(points, rows, others or {}, heads or {})
    part = slicing.block(block, frozenset(), None)
    own = part.sets
    while True:
        first = _first_values(before, part.live & own, own, rows)
        if first.sets <= own:
            break
        own |= first.sets
    if first.live:
        raise UsageError(
            f"line {block[0].lineno}: {', '.join(sorted(first.live))} has no value before the loop: set it there"
        )
    loaded = {name for one in first.nodes if isinstance(one, ast.stmt) for name in names_loaded(one)}
    needed = (part.live | loaded) - own
    return LoopSlice((*first.lines, *part.lines), (*first.nodes, *part.nodes), frozenset(needed))


def _first_values(
    before: Sequence[ast.stmt], wanted: frozenset[str], own: frozenset[str], rows: Sequence[str]
) -> _Part:
    """The statements that initialise names; the names that none initialises are returned as live."""
    found = _Part([], [], wanted)
    for one in reversed(before):
        if found.live & set(names_set(one)):
            live = (found.live - kills(one)) | (names_loaded(one) & own)
            lines = [*_text(one, rows).splitlines(), *found.lines]
            found = _Part(lines, [one, *found.nodes], live, found.sets | set(names_set(one)))
    return found


@dataclass
class _Part:
    """The kept part of some statements, the names live before it, and the names that it sets."""

    lines: list[str]
    nodes: list[ast.AST]
    live: frozenset[str]
    sets: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Exits:
    """The names live after a loop and at its next iteration, and whether its jumps are kept."""

    behind: frozenset[str]
    again: frozenset[str]
    are_kept: bool


@dataclass
class _Slicing:
    points: Mapping[ast.stmt, Yielded]
    rows: Sequence[str]
    others: Mapping[ast.stmt, ast.stmt | None]
    heads: Mapping[ast.stmt, str]

    def block(self, statements: Sequence[ast.stmt], live: frozenset[str], exits: _Exits | None) -> _Part:
        kept = _Part([], [], live)
        for one in reversed(statements):
            part = self._statement(one, kept.live, exits)
            kept = _Part([*part.lines, *kept.lines], [*part.nodes, *kept.nodes], part.live, part.sets | kept.sets)
        return kept

    def _statement(self, one: ast.stmt, live: frozenset[str], exits: _Exits | None) -> _Part:
        if one in self.others:
            other = self.others[one]
            return _Part([], [], live) if other is None else self._plain(other, live, text=ast.unparse(other))
        if one in self.points:
            return self._point(one, live)
        match one:
            case ast.Break() | ast.Continue():
                if exits is None or not exits.are_kept:
                    return _Part([], [], live)
                return _Part([ast.unparse(one)], [], exits.behind if isinstance(one, ast.Break) else exits.again)
            case ast.If():
                return self._if(one, live, exits)
            case ast.For() | ast.While() if not (isinstance(one, ast.For) and targets_of(one.target) & live):
                return self._loop(one, live)
            case ast.With():
                return self._with(one, live, exits)
            case ast.Try() | ast.Match() if any(inner in self.points for inner in ast.walk(one)):
                raise UsageError(f"line {one.lineno}: a part of the loop is within a statement that is not a loop")
        return self._plain(one, live)

    def _point(self, one: ast.stmt, live: frozenset[str]) -> _Part:
        point = self.points[one]
        if found := live & set(names_set(one)):
            raise UsageError(
                f"line {one.lineno} sets {', '.join(sorted(found))}, on which the loop's control flow depends: its "
                "result is not known before it runs"
            )
        return _Part([f"{point.word} {point.text}"], [*point.nodes], live | point.needed)

    def _plain(self, one: ast.stmt, live: frozenset[str], text: str | None = None) -> _Part:
        sets = set(names_set(one))
        is_kept = sets & live or is_seed(one) or _changes(one, live)
        if not is_kept:
            return _Part([], [], live)
        text = _text(one, self.rows) if text is None else text
        return _Part(text.splitlines(), [one], (live - kills(one)) | names_loaded(one), frozenset(sets))

    def _if(self, one: ast.If, live: frozenset[str], exits: _Exits | None) -> _Part:
        body, other = self.block(one.body, live, exits), self.block(one.orelse, live, exits)
        if not body.lines and not other.lines:
            return _Part([], [], live)
        lines = [f"if {ast.unparse(one.test)}:", *_inner(body.lines or ["pass"])]
        is_elif = len(one.orelse) == 1 and isinstance(one.orelse[0], ast.If) and other.lines[:1] != []
        if is_elif and other.lines[0].startswith("if "):
            lines += [f"el{other.lines[0]}", *other.lines[1:]]
        elif other.lines:
            lines += ["else:", *_inner(other.lines)]
        live = body.live | other.live | names_loaded(one.test)
        return _Part(lines, [one.test, *body.nodes, *other.nodes], live, body.sets | other.sets)

    def _loop(self, one: ast.For | ast.While, live: frozenset[str]) -> _Part:
        has_point = any(inner in self.points for inner in ast.walk(one))
        iterated = _without_a_bar(one.iter) if isinstance(one, ast.For) else one.test
        targets = targets_of(one.target) if isinstance(one, ast.For) else set()
        loaded = names_loaded(iterated) if one not in self.heads else set()
        head = live | (frozenset() if isinstance(one, ast.For) else loaded)
        are_kept = has_point
        while True:
            body = self.block(one.body, head, _Exits(live, head, are_kept))
            more = head | (body.live - targets)
            if more == head and are_kept >= bool(body.lines):
                break
            head, are_kept = more, are_kept or bool(body.lines)
        if not body.lines:
            return _Part([], [], live)
        if one.orelse:
            raise UsageError(
                f"line {one.lineno}: the loop has an else, which port does not read: move it after the loop"
            )
        said = f"for {ast.unparse(one.target)} in {{}}:" if isinstance(one, ast.For) else "while {}:"
        line = self.heads.get(one, said.format(ast.unparse(iterated)))
        sets = body.sets | (targets if one not in self.heads else set())
        return _Part([line, *_inner(body.lines)], [iterated, *body.nodes], head | loaded, sets)

    def _with(self, one: ast.With, live: frozenset[str], exits: _Exits | None) -> _Part:
        """Keep the body, and the ``with`` itself if it opens something that the body needs."""
        body = self.block(one.body, live, exits)
        bound = {name for item in one.items if item.optional_vars for name in targets_of(item.optional_vars)}
        if not body.lines or not bound & body.live:
            return body
        loaded = {name for item in one.items for name in names_loaded(item.context_expr)}
        items = ", ".join(map(ast.unparse, one.items))
        said = [item.context_expr for item in one.items]
        return _Part(
            [f"with {items}:", *_inner(body.lines)],
            [*said, *body.nodes],
            (body.live - bound) | loaded,
            body.sets | bound,
        )


def statement_at(block: Sequence[ast.stmt], line: int) -> ast.stmt:
    """The innermost statement of a line, which a yield can replace.

    Raises:
        UsageError: it is compound, or the work happens within an expression.
    """
    found = [one for outer in block for one in ast.walk(outer) if isinstance(one, ast.stmt) and holds(one, line)]
    if not found:
        raise UsageError(f"line {line} is not among the loop's own lines")
    one = max(found, key=lambda one: (one.lineno, one.col_offset))
    if hasattr(one, "body"):
        raise UsageError(f"line {line} is the head of a statement: assign its value to a name before it")
    within = [node for node in ast.walk(one) if isinstance(node, ast.ListComp | ast.GeneratorExp)]
    if any(holds(node, line) and holds_call([node.elt]) for node in within):
        raise UsageError(f"line {line} loops over the batches within an expression: write a `for`")
    return one


def _inner(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _text(one: ast.stmt, rows: Sequence[str]) -> str:
    """A statement's source text in the script; generated statements have no line there."""
    return source_text(one, rows) if one.lineno else ast.unparse(one)


def _without_a_bar(iterated: ast.expr) -> ast.expr:
    """``range(n)`` for ``tqdm(range(n))``: the slice must not show a second progress bar."""
    match iterated:
        case ast.Call(args=[inner, *_]) as call if called_name(call) in ("tqdm", "track"):
            return inner
        case ast.Call(args=arguments) as call if called_name(call) == "trange":
            return ast.fix_missing_locations(ast.Call(ast.Name("range", ast.Load()), arguments, []))
    return iterated


def _changes(one: ast.stmt, live: frozenset[str]) -> bool:
    """Whether it mutates a live value: ``counter.advance()``, ``random.shuffle(order)``, ``order.random_()``."""
    match one:
        case ast.Expr(ast.Call(function, arguments) as call) if called_name(call) not in REPORTING:
            is_on = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
            base = function.value.id if is_on else ""  # type: ignore[attr-defined]
            names = {arg.id for arg in arguments if isinstance(arg, ast.Name)}
            writes = called_name(call).endswith("_") or called_name(call) == "shuffle"
            return (base in live and base not in ("torch", "np", "numpy", "random")) or bool(writes and names & live)
    return False


def names_set_in(loop: ast.stmt) -> set[str]:
    """Names that the statements within a loop set."""
    inner = (one for one in ast.walk(loop) if isinstance(one, ast.stmt) and one is not loop)
    return {name for one in inner for name in names_set(one)}


def holds_call(expressions: Sequence[ast.expr]) -> bool:
    """Whether they contain a call, which may draw."""
    return any(True for one in expressions for _ in calls_in(one))
