"""A line of the original's source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLocation:
    """Where in the original source a step comes from."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
