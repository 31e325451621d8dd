"""Match the axes of a shape before and after a reshape."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from port.translation.ir.graph import Size


@dataclass(frozen=True)
class AxisGroup:
    """Adjacent axes before a reshape, and the adjacent axes after it that hold the same elements."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def groups(before: tuple[Size, ...], after: tuple[Size, ...]) -> list[AxisGroup] | None:
    """Return the smallest groups, from the left; None if symbolic lengths leave them open.

    An inserted or removed axis of length 1 is a group that is empty on one side.
    """
    found: list[AxisGroup] = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and before[i] == after[j]:
            found.append(AxisGroup((i,), (j,)))
            i, j = i + 1, j + 1
            continue
        if i < len(before) and before[i] == 1:
            found.append(AxisGroup((i,), ()))
            i += 1
            continue
        if j < len(after) and after[j] == 1:
            found.append(AxisGroup((), (j,)))
            j += 1
            continue
        ends = _next(before, after, i, j)
        if ends is None:
            return None
        found.append(AxisGroup(tuple(range(i, ends[0])), tuple(range(j, ends[1]))))
        i, j = ends
    return found


def holds(found: list[AxisGroup], before: tuple[Size, ...], after: tuple[Size, ...]) -> bool:
    """Whether groups also hold for other shapes."""
    return all(
        _same(tuple(before[axis] for axis in group.before), tuple(after[axis] for axis in group.after))
        for group in found
    )


def _next(before: tuple[Size, ...], after: tuple[Size, ...], i: int, j: int) -> tuple[int, int] | None:
    """Return the ends, before and after, of the group that begins at axes ``i`` and ``j``."""
    for k in range(i + 1, len(before) + 1):
        for end in range(j + 1, len(after) + 1):
            if _same(before[i:k], after[j:end]):
                return k, end
    return None


def _same(left: tuple[Size, ...], right: tuple[Size, ...]) -> bool:
    """Whether two tuples of lengths have equal products for all values of the symbols."""
    import sympy  # type: ignore[import-untyped]

    if all(isinstance(size, int) for size in (*left, *right)):
        return prod(left) == prod(right)  # type: ignore[arg-type]

    def product(sizes: tuple[Size, ...]) -> sympy.Expr:
        return sympy.Mul(*(sympy.sympify(size) for size in sizes))

    return sympy.simplify(product(left) - product(right)) == 0
