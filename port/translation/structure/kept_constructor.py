"""A constructor that is written as the original's source has it, and what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from port.translation.ir import syntax


@dataclass(frozen=True)
class KeptConstructor:
    """A class's constructor, and what it calls.

    Attributes:
        base: of the class.
        attributes: of the class itself.
        functions: the constructor, and the methods that it calls.
    """

    base: syntax.Expr
    attributes: tuple[syntax.Assign, ...]
    functions: tuple[syntax.FunctionDef, ...]


@dataclass(frozen=True)
class KeptDefinition:
    """A function, or a class of another kind, that constructors read.

    Attributes:
        original: the original's.
        statement: what is written.
    """

    original: Any
    statement: syntax.Stmt

    @property
    def name(self) -> str:
        """Its own, which is the original's."""
        return str(self.original.__name__)
