"""Lower loops to ``lax.scan``: each iteration takes the carry of the one before, and slices along the first axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from port.translation.ir.expr import literal
from port.translation.ir.graph import Carried, Loop, Size, Sliced, Stacked, Step, Value
from port.translation.ir.layout import Layout, torchs, with_new, without
from port.translation.ir.lowered import Scan
from port.translation.lowering.transposes import transposed

if TYPE_CHECKING:
    from port.translation.ir import syntax
    from port.translation.lowering.context import LoweringContext


def lower_loop(stage: LoweringContext, loop: Loop, go: Callable[[Step], None]) -> None:
    """Lower a loop; ``go`` lowers a step of its body."""
    stage.place = loop.place
    whole = [_lower_sliced(stage, each) for each in loop.sliced]
    first = [_lower_initial(stage, each) for each in loop.carried]
    drawn = len(stage.draws)
    with stage.within() as steps:
        for step in loop.steps:
            go(step)
        stage.place = loop.place
        following = [_lower_next(stage, each) for each in loop.carried]
        outputs = [stage.ref(each.inside) for each in loop.stacked]
    if loop.stateful:
        stage.draws[drawn:] = [tuple(stage.draws[drawn:])]
    rows = [_rows(stage, each, loop.length) for each in loop.stacked]
    for carried in loop.carried:
        _known(stage, carried.last, stage.layout(carried.inside))
    stage.lowered.append(
        Scan(
            tuple(each.inside for each in loop.carried),
            tuple(each.inside for each in loop.sliced),
            tuple(first),
            tuple(whole),
            tuple(each.last for each in loop.carried),
            tuple(rows),
            tuple(following),
            tuple(outputs),
            None if whole else _length(stage, loop),
            loop.reverse,
            loop.stateful,
            tuple(steps),
            loop.place,
        )
    )
    for each, row in zip(loop.stacked, rows, strict=True):
        _stack(stage, each, row)


def _known(stage: LoweringContext, value: Value, layout: Layout) -> None:
    stage.layouts[value] = layout
    stage.values[value.name] = value


def _lower_sliced(stage: LoweringContext, sliced: Sliced) -> syntax.Expr:
    """Return the sliced array with the loop's axis moved to the front."""
    whole, axis = sliced.whole, sliced.axis
    layout, expression = stage.layout(whole), stage.ref(whole)
    if layout.folded is not None and layout.folded.axis == axis:
        layout, expression = torchs(whole.rank), stage.need(whole)
    place = layout.axis(axis)
    if place:
        expression = transposed(expression, (place, *(k for k in range(whole.rank) if k != place)))
    _known(stage, sliced.inside, without(layout, {axis}))

    def back(wanted: Layout) -> Layout | None:
        return None if wanted.folded is not None else with_new(wanted, axis)[0]

    if layout.folded is None:
        stage.follows[sliced.inside] = (whole, back)
    made: syntax.Expr = expression
    return made


def _lower_initial(stage: LoweringContext, carried: Carried) -> syntax.Expr:
    """Return the initial carry, in the carry's layout."""
    inside = carried.inside
    layout = stage.chosen_layout(inside) or replace(stage.layout(carried.first), folded=None)
    _known(stage, inside, layout)
    stage.sources.add(inside)
    return stage.need(carried.first, layout)


def _lower_next(stage: LoweringContext, carried: Carried) -> syntax.Expr:
    """Return the next carry, in the carry's layout; suggest the layout in which an iteration computes it."""
    wanted, has = stage.layout(carried.inside), replace(stage.layout(carried.next), folded=None)
    if wanted != has:
        stage.suggest(carried.inside, has)
    return stage.need(carried.next, wanted)


def _rows(stage: LoweringContext, stacked: Stacked, length: Size) -> Value:
    """Return the stacked outputs as the scan returns them, with the iterations along the first axis."""
    inside = stacked.inside
    rows = Value(f"{stacked.whole.name}_rows", (length, *(inside.shape or ())), inside.dtype)
    layout = stage.layout(inside)
    folded = None if layout.folded is None else replace(layout.folded, axis=layout.folded.axis + 1)
    _known(stage, rows, Layout((0, *(dim + 1 for dim in layout.order)), folded))
    return rows


def _stack(stage: LoweringContext, stacked: Stacked, rows: Value) -> None:
    """Move the iterations' axis of the stacked outputs to where torch has it."""
    stage.place = None
    layout, place = with_new(stage.layout(stacked.inside), stacked.axis)
    if not place:
        stage.alias(stacked.whole, rows, layout)
        return
    order = (*range(1, place + 1), 0, *range(place + 1, rows.rank))
    stage.give(stacked.whole, transposed(stage.ref(rows), order), layout)


def _length(stage: LoweringContext, loop: Loop) -> syntax.Expr:
    if isinstance(loop.length, int):
        return literal(loop.length)
    size = Value(f"{loop.results[0].name}_rounds", None, "size", loop.length)
    stage.values[size.name] = size
    made: syntax.Expr = stage.ref(size)
    return made
