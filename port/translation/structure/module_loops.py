"""Roll a body into loops over the lists that its module holds, with the list in which the original collects values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import names_in
from port.translation.structure.collected_lists import with_lists
from port.translation.structure.held_lists import HeldLists, rolled_through
from port.translation.structure.list_append import appended_list, grown
from port.translation.structure.loop_names import LoopNames, loop_names
from port.translation.structure.train_eval_merge import with_modes_apart
from port.translation.structure.written_body import Body


def with_loops(body: Body, lists: HeldLists, original: Any) -> Body:
    """Write loops where a body does the same for one item of a list after another.

    Args:
        body: the body as the graph computes it, its lengths settled.
        lists: the lists that ``self`` and the parameters hold.
        original: the function that the body belongs to.
    """
    made = _with_loops(body, lists, original)
    apart = with_modes_apart(body)
    if apart is None:
        return made
    # Where both modes start an iteration alike, neither is a loop until they are separated.
    return min(made, _with_loops(apart, lists, original), key=_statements)  # the first of equals


def _with_loops(body: Body, lists: HeldLists, original: Any) -> Body:
    names, taken = loop_names(original), _names(body)
    best = _rolled(body, lists, names)
    name = appended_list(original, taken)
    if name is None:
        return best
    for collecting, length in with_lists(body, name):
        made = _rolled(collecting, lists.union(HeldLists({syntax.Name(name): length})), names)
        best = max(best, made, key=_order)  # the first of equals
    return max(best, _rolled(_with_growing_list(body, original), lists, names), key=_order)


def _rolled(body: Body, lists: HeldLists, names: LoopNames) -> Body:
    loops = rolled_through(body.statements, lists, _names(body), names.items, names.strides)
    return replace(body, statements=tuple(loops))


def _with_growing_list(body: Body, original: Any) -> Body:
    """Replace a list that is passed to each iteration, one item longer each time, by one list with appends."""
    last = () if body.returns is None else (syntax.Return(body.returns),)
    statements = grown([*body.statements, *last], original, _names(body), fewest=2)
    match statements[-1:]:
        case [syntax.Return(returned)]:
            return replace(body, statements=tuple(statements[:-1]), returns=returned)
    return replace(body, statements=tuple(statements))


def _names(body: Body) -> set[str]:
    """The names that a body uses."""
    return names_in(*body.statements, body.returns) | {name.lstrip("*") for name in body.parameters}


def _order(body: Body) -> tuple[int, int]:
    """Sort key: the number of loops, then the fewest statements."""
    nodes = list(syntax.walk(*body.statements))
    loops = sum(isinstance(node, syntax.For) for node in nodes)
    return loops, -_statements(body) if loops else 0


def _statements(body: Body) -> int:
    nodes = syntax.walk(*body.statements)
    return sum(isinstance(node, syntax.Stmt) and not isinstance(node, syntax.Comment) for node in nodes)
