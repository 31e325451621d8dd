"""The stand-in for a recorder on ranks that do not record."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class Unrecorded:
    """Accepts the calls of a `Recorder` and keeps nothing: of several ranks, the first records for all."""

    def __call__(self, step: int, *, loss: Any, **more: Any) -> None:
        """Ignore a step."""

    def evaluation(self, step: int, *, loss: Any, duration: float | None = None, **more: Any) -> None:
        """Ignore an evaluation."""

    def flush(self) -> None:
        """Do nothing: nothing is pending."""

    def close(self, *, finished: bool = True) -> None:
        """Do nothing: nothing is open."""

    def __enter__(self) -> Unrecorded:
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass
