"""Locations in the original's source."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceLocation:
    """The line of the original's source that a step comes from.

    Attributes:
        file: the source file.
        line: from 1.
        around: the call stack up to a ``forward``, the innermost call first; not compared.
    """

    file: str
    line: int
    around: tuple[SourceLocation, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
