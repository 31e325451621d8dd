"""Inline values with one use; eliminate dead code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import renamed, values_in
from port.translation.ir.graph import Value, each_value
from port.translation.ir.lowered import Scan
from port.translation.structure.source_map import Statement


@dataclass
class Made:
    """A statement to be written: its results, and the expression that computes them.

    Attributes:
        names: value → the name that it should get.
        scan: the loop, if the statement is one.
        rounds: what one iteration of the loop computes.
        inside: values from outside that the iterations read.
        acts: whether it may have side effects, as a call that writes a buffer does.
        keys: for a statement that takes part of a call's results, the keys of that part, outermost first.
        outer: if it belongs to an inlined function, the statements that call that function, innermost first.
    """

    results: Any
    expression: syntax.Expr
    statement: Statement | None
    names: dict[str, str] = field(default_factory=dict)
    scan: Scan | None = None
    rounds: list[Made] = field(default_factory=list)
    inside: tuple[str, ...] = ()
    acts: bool = False
    keys: tuple[Any, ...] = ()
    outer: tuple[Statement, ...] = ()

    @property
    def reads(self) -> list[str]:
        """The names of the values that it reads, with repetitions."""
        return [*values_in(self.expression), *self.inside]


def live(made: list[Made], ends: list[str]) -> list[Made]:
    """Eliminate dead code. A call of a layer is kept even if its result is unused: it may update statistics.

    Args:
        made: the statements of the body, in order.
        ends: the values that the results and the buffer writes are computed from.
    """
    wanted = set(ends)
    kept: list[Made] = []
    for item in reversed(made):
        results = {value.name for value in each_value(item.results)}
        if results & wanted or (results and _calls_held(item.expression)) or item.acts:
            kept.insert(0, item)
            wanted |= set(item.reads)
    return kept


def inlined(made: list[Made], ends: list[str]) -> tuple[list[Made], dict[str, syntax.Expr]]:
    """Inline values that have no name and a single use.

    Returns:
        The remaining statements, and the expressions of the inlined values, needed for the results.
    """
    uses: Counter[str] = Counter(ends)
    for item in made:
        # What the iterations of a loop read is computed once, before the loop.
        uses.update([*item.reads, *item.inside])
    inline: dict[str, syntax.Expr] = {}
    kept = []
    for number, item in enumerate(made):
        item.expression = with_inlined(item.expression, inline)
        single = item.results[0] if isinstance(item.results, tuple) and len(item.results) == 1 else item.results
        is_one = isinstance(single, Value)
        is_short = _is_short(item.expression) or (item.keys != () and not _calls_held(item.expression))
        once = is_one and uses[single.name] == 1 and not _is_overtaken(made, number, single.name, ends)
        if is_one and not item.names and (once or is_short):
            inline[single.name] = item.expression
        else:
            kept.append(item)
    return kept, inline


def _is_overtaken(made: list[Made], number: int, name: str, ends: list[str]) -> bool:
    """Whether inlining a call would move it behind a later call of the same module, which may keep statistics."""
    calls = _held_calls(made[number].expression)
    reader = next((place for place in range(number + 1, len(made)) if name in made[place].reads), len(made))
    order = ends if reader == len(made) else made[reader].reads
    for item in made[number + 1 : reader] if calls else ():
        later = [value.name for value in each_value(item.results)]
        in_order = later and all(each in order and order.index(name) < order.index(each) for each in later)
        if calls & _held_calls(item.expression) and not in_order:
            return True
    return False


def _calls_held(expression: syntax.Expr) -> bool:
    """Whether an expression calls a layer or a user's module."""
    return bool(_held_calls(expression))


def _held_calls(expression: syntax.Expr) -> set[syntax.Attr]:
    """The layers and user's modules that an expression calls."""
    calls = (node.func for node in syntax.walk(expression) if isinstance(node, syntax.Call))
    return {func for func in calls if isinstance(func, syntax.Attr)}


def with_inlined(expression: syntax.Expr, inline: dict[str, syntax.Expr]) -> syntax.Expr:
    """Substitute expressions for values."""

    def of(node: syntax.Use | syntax.Attr) -> syntax.Expr:
        return inline.get(node.name, node) if isinstance(node, syntax.Use) else node

    return renamed(expression, of) if inline else expression


def tree_with_inlined(tree: Any, inline: dict[str, syntax.Expr]) -> Any:
    """Substitute expressions for values in a tree of results."""
    match tree:
        case syntax.Expr():
            return with_inlined(tree, inline)
        case dict():
            return {key: tree_with_inlined(item, inline) for key, item in tree.items()}
        case tuple() if hasattr(tree, "_fields"):
            return type(tree)(*(tree_with_inlined(item, inline) for item in tree))
        case tuple() | list():
            return type(tree)(tree_with_inlined(item, inline) for item in tree)
        case _:
            return tree


def _is_short(expression: syntax.Expr) -> bool:
    """Whether an expression is cheap enough to be written twice: a constant or a plain read."""
    match expression:
        case syntax.Const() | syntax.Subscript(syntax.Attr()):
            return True
    return False
