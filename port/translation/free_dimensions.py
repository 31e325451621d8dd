"""Decide which lengths stay free in the source: those that can vary, with a few exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from port.translation.both_modes import BothRuns
from port.translation.frontend.conditions import GLANCE
from port.translation.frontend.free_lengths import FreeLength, longest
from port.translation.frontend.input_lengths import InputLengths, Lengths, holds
from port.translation.frontend.resized_inputs import Axis
from port.translation.ir import syntax
from port.translation.ir.expr import names_in
from port.translation.ir.graph import Size
from port.translation.ir.symbolic_lengths import UNSAID, axes_of, shapes_of, words_in

Run = Callable[..., BothRuns]
"""`both_runs` of a module on its example inputs, with only ``free`` left to choose."""


def captured_with_free_lengths(run: Run) -> BothRuns:
    """Capture runs with as many lengths free as can be written well."""
    return _fewest_unwritten(_without_pinned(run(free=None), run), run)


def _without_pinned(captured: BothRuns, run: Run) -> BothRuns:
    """Capture again with the lengths of a flattened image fixed.

    A linear layer after a flatten determines the image's size, up to what strides round off; no caller needs 33 pixels
    instead of 32. With fixed lengths the flatten's order is folded into the layer's kernel; with free lengths the
    source would need a transpose before it.
    """
    graphs = captured.graphs.values()
    axes: set[Axis] = set()
    for graph in graphs:
        example = InputLengths(shapes_of(graph)).of(captured.args, captured.kwargs)
        for guard in graph.guards:
            axes |= {axis for name in pinned(guard, example) for axis in axes_of(name, graph)}
    return run(free=_without_axes(captured.free, axes)) if axes else captured


def pinned(guard: str, example: Lengths) -> set[str]:
    """Return the names of the lengths that a guard fixes.

    Such a guard equates a formula with a number, ``h // 4 * (w // 4) == 64``, or has no readable form. A guard that
    also holds at twice the lengths fixes none.

    Args:
        guard: a condition.
        example: the values of the lengths in the example.
    """
    if holds(guard, {name: 2 * size for name, size in example.items()}):
        return set()
    match syntax.parsed(guard):
        case syntax.Call(syntax.Name(name), arguments) if name == UNSAID:
            return names_in(*arguments)
        case syntax.Compare(left, ("==",), (syntax.Const(int(number)),)):
            # A result of one pixel comes from pooling at the example's size, not from a layer's number of features.
            remainders = (node for node in syntax.walk(left) if isinstance(node, syntax.BinOp) and node.op == "%")
            if number != 1 and not any(remainders):
                return names_in(left) - {"max", "min", "int"}
    return set()


def _fewest_unwritten(captured: BothRuns, run: Run) -> BothRuns:
    """Capture again with lengths fixed, if that makes more operators expressible."""

    def unwritten(runs: BothRuns) -> int:
        return sum(len(lowered.unwritten) for lowered in runs.runs.values())

    batch = [length for length in captured.free if all(axis == 0 for _, axis in length.axes)]
    for fewer in (batch, []):
        if unwritten(captured) and len(fewer) < len(captured.free):
            other = run(free=fewer)
            captured = other if unwritten(other) < unwritten(captured) else captured
    return captured


def with_formula_fixed(captured: BothRuns, formula: Size, run: Run) -> BothRuns | None:
    """Capture again with the lengths in a formula fixed; None if none of them is free."""
    left = _without_axes(captured.free, axes_of(formula, captured.graphs[True]))
    return run(free=left) if len(left) < len(captured.free) else None


def with_fewer(captured: BothRuns, unguarded: Sequence[str], run: Run) -> BothRuns | None:
    """Capture again with fewer lengths free: first without those generalised from several captures, then batch only.

    Args:
        captured: the runs.
        unguarded: names of the lengths that were generalised.
        run: captures the module again.

    Returns:
        The new runs; None if no length is free any more.
    """
    axes = {axis for name in unguarded for axis in axes_of(name, captured.graphs[True])}
    batch = [length for length in captured.free if all(axis == 0 for _, axis in length.axes)]
    for free in (_without_axes(captured.free, axes), batch, []):
        if len(free) < len(captured.free):
            return run(free=free)
    return None


def without_long_conditions(
    captured: BothRuns, conditions: Sequence[str], run: Run, *, most: int = GLANCE
) -> BothRuns | None:
    """Capture again with the lengths fixed that have conditions longer than ``most``; None if there are none."""
    long = [condition for condition in conditions if len(condition) > most]
    words = {word for condition in long for word in words_in(condition)}
    graphs = captured.graphs.values()
    axes = {axis for graph in graphs for word in words for axis in axes_of(word, graph)}
    left = _without_axes(captured.free, axes)
    return run(free=left) if len(left) < len(captured.free) else None


def length_limits(captured: BothRuns, shapes: Sequence[Sequence[Size]]) -> list[str]:
    """Return conditions for lengths with an upper limit: JAX does not refuse an index past a table's end.

    Args:
        captured: the runs.
        shapes: the shapes of the inputs, with the names of free lengths.
    """
    found = []
    for length in captured.free:
        number, axis = length.axes[0]
        name = shapes[number][axis]
        if isinstance(name, str) and name.isidentifier() and (most := longest(captured.trials, length)) is not None:
            found.append(f"{name} <= {most}")
    return found


def _without_axes(free: Sequence[FreeLength], axes: set[tuple[int, int]]) -> list[FreeLength]:
    return [length for length in free if not axes & {*length.axes}]
