"""Reshapes.

Where a flatten merges axes that have another order in JAX, the elements of the merged axis are reordered (a fold); the
weights of the linear layer that reads it are reordered in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.pairs.ops.axes import Reshaped
from port.translation.ir.graph import Value
from port.translation.ir.layout import Folded, Layout, torchs
from port.translation.ir.origin import LengthOf
from port.translation.ir.origin_expression import leaves_of
from port.translation.ir.origin_numbers import origin_of
from port.translation.ir.reshape_axes import AxisGroup
from port.translation.lowering.named_lengths import named_or_read
from port.translation.lowering.paired import Paired, give
from port.translation.lowering.templates import SourceFragment

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_reshaped(stage: LoweringContext, paired: Paired, axes: Reshaped) -> None:
    """Lower an operator whose pair has `Reshaped` axes."""
    value, result = paired.variables["input"], paired.operation.results[0]
    sizes = list(paired.variables[axes.variable])
    if value.shape == result.shape:
        stage.alias(result, value, stage.layout(value))
        return
    found = stage.views.groups(value, result)
    has = stage.layout(value)
    made = None if found is None else _laid_out(has, found, value)
    folds = made is not None and made.folded is not None and has.folded is None
    if (
        found is not None
        and has.folded is None
        and (made is None or (folds and stage.chosen_layout(result) is not None))
    ):
        has = _in_runs(has, found)
        made, folds = _laid_out(has, found, value), False
    if made is None:
        has, made = torchs(value.rank), torchs(result.rank)
    shape = _shape(stage, value, has, result, made, sizes, found)
    template = None if shape else "input.reshape(())"  # JAX's reshape needs an argument
    give(stage, paired, {"input": stage.need(value, has), axes.variable: tuple(shape)}, [made], template=template)
    if folds:
        # For a reader that cannot take the reordered elements, the array is transposed before the reshape.
        stage.sources.add(result)


def _is_from_original(size: Any) -> bool:
    """Whether a length is a number with an origin in the original, and not computed from a tensor's length."""
    return origin_of(size) is not None and not _is_from_a_length(size)


def _is_from_a_length(size: Any) -> bool:
    """Whether the original computes a number from a tensor's length."""
    origin = origin_of(size)
    return origin is not None and any(isinstance(each, LengthOf) for each in leaves_of(origin))


def _in_runs(layout: Layout, found: list[AxisGroup]) -> Layout:
    """Return the nearest layout in which the axes of each group are adjacent, in torch's order."""
    runs = sorted(
        (sorted(group.before) for group in found if group.before), key=lambda run: max(map(layout.order.index, run))
    )
    order = tuple(dim for run in runs for dim in run)
    return Layout(order) if len(order) == layout.rank else torchs(layout.rank)


def _laid_out(layout: Layout, found: list[AxisGroup], value: Value) -> Layout | None:
    """Return the layout after reshaping the array in its current layout; None if that is not possible."""
    places: dict[int, list[int]] = {}  # the first axis of a group in the array → its axes in the result
    folded: Folded | None = None
    for group in found:
        if layout.folded is not None and layout.folded.axis in group.before:
            if len(group.before) > 1 or len(group.after) > 1:
                return None
            folded = replace(layout.folded, axis=group.after[0])
        if not group.before:
            continue
        where = [layout.order.index(dim) for dim in group.before]
        if sorted(where) != list(range(min(where), max(where) + 1)):
            return None
        if where != sorted(where):
            significant = [dim for dim in group.before if value.shape[dim] != 1]  # type: ignore[index]
            lying = [dim for dim in layout.order if dim in significant]
            if lying != significant:
                sizes = [value.shape[dim] for dim in group.before]  # type: ignore[index]
                if len(group.after) != 1 or folded is not None or not all(isinstance(size, int) for size in sizes):
                    return None
                lies = sorted(range(len(where)), key=where.__getitem__)
                folded = Folded(group.after[0], tuple(sizes), tuple(lies))  # type: ignore[arg-type]
        places[min(where)] = list(group.after)
    order: list[int] = [dim for place in sorted(places) for dim in places[place]]
    for group in found:  # new axes of length 1 come after the axis that precedes them in torch
        if not group.before:
            for dim in group.after:
                before = [order.index(other) for other in order if other == dim - 1]
                order.insert(before[0] + 1 if before else 0, dim)
    stays = [tuple(group.after) for group in found if group.before]
    if len(order) >= 4 and stays == [(0,), (1,)] and order == sorted(order):
        order = [0, *range(2, len(order)), 1]  # one number per image and channel: channels last, like the image's
    return Layout(tuple(order), folded)


def _shape(
    stage: LoweringContext,
    value: Value,
    has: Layout,
    result: Value,
    layout: Layout,
    sizes: list[Any],
    found: list[AxisGroup] | None,
) -> list[Any]:
    """Return the shape to emit; lengths that stay are read from the array, so that the source does not fix them.

    For a length that the original names, the result holds both forms; a later pass knows whether the name is in scope.
    """
    stays = {g.after[0]: g.before[0] for g in found or () if len(g.before) == len(g.after) == 1}
    merged = {g.after[0] for g in found or () if len(g.before) > 1 and len(g.after) == 1}
    shape: list[Any] = []
    leading = 0
    while leading < layout.rank and layout.order[leading] in stays and leading < has.rank:
        if has.order[leading] != stays[layout.order[leading]]:
            break
        leading += 1
    if leading == layout.rank:
        leading -= 1
    leading = leading if leading > 1 else 0
    shape += [SourceFragment(f"input.shape[{axis}]") for axis in range(leading)]
    original_sizes = [sizes[dim] if dim < len(sizes) else -1 for dim in layout.order]
    for dim, size in zip(layout.order[leading:], original_sizes[leading:], strict=True):
        if dim in stays and not _is_from_original(size):
            axis = has.order.index(stays[dim])
            shape.append(SourceFragment(f"input.shape[{axis if axis < has.rank - 1 else -1}]"))
        elif isinstance(size, Value):
            shape.append(stage.ref(size))
        elif size == -1 or not isinstance(result.shape[dim], int):  # type: ignore[index]
            shape.append(-1)
        else:  # the argument carries its origin
            shape.append(size if size == result.shape[dim] else result.shape[dim])  # type: ignore[index]
    # One length may be −1: preferably that of a flatten, so that the image's size is not fixed.
    open_ones = [dim for dim in layout.order[leading:] if dim in merged]
    if -1 not in shape and len(open_ones) == 1:
        shape[list(layout.order[leading:]).index(open_ones[0]) - len(layout.order[leading:])] = -1
    elif -1 not in shape and len(other := [place for place, size in enumerate(shape) if _is_from_a_length(size)]) == 1:
        shape[other[0]] = -1  # the original computes it as well: C // self.heads
    if shape.count(-1) > 1:
        first = shape.index(-1)
        for k in range(first + 1, len(shape)):
            if shape[k] == -1 and isinstance(result.shape[layout.order[k - len(shape)]], int):  # type: ignore[index]
                shape[k] = result.shape[layout.order[k - len(shape)]]  # type: ignore[index]
    return [
        named_or_read(stage, size, read, f"{result.name}'s length {dim}")
        for dim, size, read in zip(layout.order, original_sizes, shape, strict=True)
    ]
