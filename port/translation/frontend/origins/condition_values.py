"""Evaluate conditions of the source, where values alone decide them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from port.translation.frontend.origins.frame_objects import MISSING
from port.translation.frontend.origins.resolved import Resolved

_PLAIN = (bool, int, float, str, type(None))
"""Types whose values may be tested. The truth of a tensor or a symbolic number would be that of the example only."""

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def truth(found: Resolved) -> bool | None:
    """Return a value's truth; None where it is not known."""
    if type(found.value) in _PLAIN:
        return bool(found.value)
    return None if found.items is None else bool(found.items)


def is_instance(found: Resolved, kind: Resolved) -> Any:
    """Evaluate ``isinstance``; `MISSING` where the result is not known."""
    items = kind.each_item()
    kinds = (kind.value,) if items is None else tuple(item.value for item in items)
    if found.value is MISSING or not all(isinstance(each, type) for each in kinds):
        return MISSING
    return isinstance(found.value, kinds)


def compared(kind: ast.cmpop, left: Any, right: Any) -> Any:
    """Evaluate a comparison; `MISSING` where the result is not known."""
    if left is MISSING or right is MISSING:
        return MISSING
    if isinstance(kind, ast.Is | ast.IsNot):
        return (left is right) == isinstance(kind, ast.Is) if left is None or right is None else MISSING
    function = _COMPARISONS.get(type(kind))
    if function is None or type(left) not in _PLAIN or type(right) not in _PLAIN:
        return MISSING
    try:
        return function(left, right)
    except TypeError:
        return MISSING
