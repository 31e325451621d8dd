"""Match the parts of a subscript such as ``x[:, 0, None]`` with the arguments of the operators that it becomes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.number import is_same
from port.translation.ir.origin import DefaultOf


def of_subscript(
    key: ast.expr, operator: str, arguments: Mapping[str, Any], resolve: Callable[[ast.expr], Resolved]
) -> dict[str, Resolved]:
    """Resolve the arguments of one of the operators that a subscript becomes.

    Args:
        key: the expression in the brackets.
        operator: the operator's name: an index becomes a ``select``, a slice a ``slice``.
        arguments: the operator's arguments.
        resolve: resolves an expression at the subscript's position.
    """
    parts = key.elts if isinstance(key, ast.Tuple) else [key]
    axis, tensor = arguments.get("dim"), arguments.get("self")
    value: Any = getattr(tensor, "meta", {}).get("val")
    if type(axis) is not int or not hasattr(value, "dim") or any(isinstance(part, ast.Starred) for part in parts):
        return {}
    at_axis = [part for part, found in _parts_and_axes(parts, value.dim(), resolve) if found == axis % value.dim()]
    if operator == "slice":
        slices = [part for part in at_axis if isinstance(part, ast.Slice)]
        return _of_slice(slices[0], resolve) if len(slices) == 1 else {}
    if operator == "select":
        numbers = [resolve(part) for part in at_axis if not isinstance(part, ast.Slice)]
        same = [each for each in numbers if is_same(each.value, arguments.get("index"))]
        return {"index": same[0]} if len(same) == 1 else {}
    return {}


_SLICE_DEFAULTS = {"start": 0, "end": 2**63 - 1, "step": 1}
"""torch's values for the omitted parts of a slice."""


def _of_slice(part: ast.Slice, resolve: Callable[[ast.expr], Resolved]) -> dict[str, Resolved]:
    ends = {"start": part.lower, "end": part.upper, "step": part.step}
    return {
        name: Resolved(_SLICE_DEFAULTS[name], DefaultOf("slice", name)) if end is None else resolve(end)
        for name, end in ends.items()
    }


def _parts_and_axes(
    parts: Sequence[ast.expr], rank: int, resolve: Callable[[ast.expr], Resolved]
) -> Iterator[tuple[ast.expr, int]]:
    """Yield each index and slice with the axis that it applies to when its turn comes.

    Parts are applied from left to right: an index removes its axis, None inserts one. After an ellipsis, axes are
    counted from the end, and parts not yet applied still have their axis.
    """
    axis, from_the_end = 0, False
    for place, part in enumerate(parts):
        found = resolve(part) if not isinstance(part, ast.Slice) else Resolved()
        if found.value is Ellipsis:
            from_the_end = True
            continue
        if from_the_end:
            left = [other for other in parts[place:] if not _is_new_axis(other, resolve)]
            axis = rank - len(left)
        if _is_new_axis(part, resolve):
            axis += 1
            continue
        yield part, axis
        axis += isinstance(part, ast.Slice)


def _is_new_axis(part: ast.expr, resolve: Callable[[ast.expr], Resolved]) -> bool:
    return not isinstance(part, ast.Slice) and resolve(part).value is None
