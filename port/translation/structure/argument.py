"""An argument of a written class's constructor."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir import syntax


@dataclass(frozen=True)
class Argument:
    """An argument of a written class's constructor.

    Attributes:
        name: its name.
        values: path of an instance → the value passed for it.
        is_module: whether it is a module, a function, or None.
        kept: whether the call reads it, so that the constructor stores it.
        default: its default; None if it is required.
        by_name: whether it is keyword-only.
        is_said: whether the constructor's code uses it as the original does; else it only distinguishes instances.
    """

    name: str
    values: dict[str, syntax.Expr]
    is_module: bool
    kept: bool = False
    default: syntax.Expr | None = None
    by_name: bool = False
    is_said: bool = False
