"""Lengths that the original names, and that can also be read from an array's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from port.translation.ir.expr import literal
from port.translation.ir.graph import Value
from port.translation.ir.origin_numbers import origin_of
from port.translation.lowering.templates import SourceFragment

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def named_or_read(stage: LoweringContext, size: Any, read: Any, key: str) -> Any:
    """Return a length for a template: read from an array, together with the original's expression if that differs.

    Args:
        stage: the lowering context.
        size: the length as an argument of the original's operator.
        read: the form to emit where the original's names are not in scope.
        key: identifies the length within the run.
    """
    if isinstance(size, Value):
        if size not in stage.producers or not isinstance(read, SourceFragment | int):
            return read  # a rule created it, or it is already the original's expression
        named = stage.ref(size)
    elif type(size) is int or origin_of(size) is None or read is size:
        return read
    else:
        named = literal(size)
    return SourceFragment(read.text if isinstance(read, SourceFragment) else repr(read), named, key)
