"""Lengths that the original says with names of its own, and that can be read off an array as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from port.translation.ir.expr import literal
from port.translation.ir.graph import Value
from port.translation.ir.origin_numbers import origin_of
from port.translation.lowering.templates import SourceFragment

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def said_or_read(stage: LoweringContext, given: Any, read: Any, key: str) -> Any:
    """A length for a template: how it is read; and how the original says it, if that is something else.

    Args:
        stage: of the lowering.
        given: what the original's operator is given.
        read: what is written where the original's names are not there.
        key: tells it from others of the run.
    """
    if isinstance(given, Value):
        if given not in stage.producers or not isinstance(read, SourceFragment | int):
            return read  # a rule's own, or said as it is
        said = stage.ref(given)
    elif type(given) is int or origin_of(given) is None or read is given:
        return read
    else:
        said = literal(given)
    return SourceFragment(read.text if isinstance(read, SourceFragment) else repr(read), said, key)
