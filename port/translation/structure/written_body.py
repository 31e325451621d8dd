"""The body of a ``__call__``, another method or a function, as the other files here change and merge it."""

from __future__ import annotations

from dataclasses import dataclass, field

from port.translation.ir import syntax
from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class Body:
    """A function's body.

    Attributes:
        parameters: the names of the parameters that it needs, with their stars.
        statements: its statements.
        returns: its return value.
        modes: whether it differs between training and evaluation.
        places: the original's line of each statement, as far as known.
    """

    parameters: tuple[str, ...]
    statements: tuple[syntax.Stmt, ...]
    returns: syntax.Expr | None
    modes: bool = False
    places: tuple[SourceLocation | None, ...] = field(default=(), compare=False, repr=False)


Bodies = dict[str, Body]
