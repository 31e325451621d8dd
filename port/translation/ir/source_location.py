"""A line of the original's source."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceLocation:
    """Where in the original source a step comes from.

    Attributes:
        file: of the source.
        line: in it, counted from 1.
        around: the lines from which the function around it was called, the innermost first, up to a ``forward``; of no
            account to whether two are equal.
    """

    file: str
    line: int
    around: tuple[SourceLocation, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
