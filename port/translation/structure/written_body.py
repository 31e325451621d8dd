"""The body of a ``__call__``, of another method or of a function, which the other files here change and merge."""

from __future__ import annotations

from dataclasses import dataclass, field

from port.translation.ir import syntax
from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class Body:
    """A function's body.

    Attributes:
        parameters: names of the parameters that it needs, with their stars.
        statements: what it does.
        returns: what it gives.
        modes: whether it does one thing in training and another in evaluation.
        places: of the original's lines that the statements are of, as far as that is known.
    """

    parameters: tuple[str, ...]
    statements: tuple[syntax.Stmt, ...]
    returns: syntax.Expr | None
    modes: bool = False
    places: tuple[SourceLocation | None, ...] = field(default=(), compare=False, repr=False)


Bodies = dict[str, Body]
