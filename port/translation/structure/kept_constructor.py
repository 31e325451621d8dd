"""A constructor that is translated from the original's source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from port.translation.ir import syntax


@dataclass(frozen=True)
class KeptConstructor:
    """A class's constructor, and the methods that it calls.

    Attributes:
        base: the class's base.
        attributes: the class's own attributes.
        functions: the constructor, and the methods that it calls.
    """

    base: syntax.Expr
    attributes: tuple[syntax.Assign, ...]
    functions: tuple[syntax.FunctionDef, ...]


@dataclass(frozen=True)
class KeptDefinition:
    """A function, or a class that is no module, that constructors use.

    Attributes:
        original: the function or class in the original.
        statement: its translation.
    """

    original: Any
    statement: syntax.Stmt

    @property
    def name(self) -> str:
        """Its name, the same as the original's."""
        return str(self.original.__name__)
