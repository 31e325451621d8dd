"""Where a number that is written comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from port.translation.ir.graph import SourceLocation


@dataclass(frozen=True)
class LiteralAt:
    """It stands in the original's source."""

    place: SourceLocation


@dataclass(frozen=True)
class AttributeOf:
    """A module of the original's holds it: the module's path, and the attribute."""

    path: str
    attribute: str


@dataclass(frozen=True)
class LengthOf:
    """It is the length of an input along one of torch's axes."""

    tensor: str
    axis: int


@dataclass(frozen=True)
class WorkedOut:
    """It follows from others."""

    of: tuple[Origin, ...]


Origin: TypeAlias = "LiteralAt | AttributeOf | LengthOf | WorkedOut"
