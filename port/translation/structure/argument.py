"""An argument of a written class's constructor."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir import syntax


@dataclass(frozen=True)
class Argument:
    """An argument of a constructor.

    Attributes:
        name: of the argument.
        values: path of an instance → what it is given.
        is_module: whether it is a module, a function, or None.
        kept: whether the call reads it, so that the constructor keeps it.
        default: what it is by default; None where it has to be given.
        by_name: whether it has to be given by its name.
        is_said: whether the constructor's code says things with it as the original's does; else the instances differ.
    """

    name: str
    values: dict[str, syntax.Expr]
    is_module: bool
    kept: bool = False
    default: syntax.Expr | None = None
    by_name: bool = False
    is_said: bool = False
