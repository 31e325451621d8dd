"""What a rank that does not record has in the recorder's place."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class Unrecorded:
    """Takes what a `Recorder` takes, and keeps nothing: of several ranks, the first records for all."""

    def __call__(self, step: int, *, loss: Any, **more: Any) -> None:
        """A step; not recorded."""

    def evaluation(self, step: int, *, loss: Any, duration: float | None = None, **more: Any) -> None:
        """An evaluation; not recorded."""

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self, *, finished: bool = True) -> None:
        """Nothing was open."""

    def __enter__(self) -> Unrecorded:
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass
