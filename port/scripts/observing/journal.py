"""The journal: one JSON line per event, written as it happens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from port.records.json_numbers import to_json


class Journal:
    """Writes events into a file; a forked process writes nothing.

    Attributes:
        muted: whether watching and writing have ended for good.
        is_kept: whether events are written at the moment.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self.muted = False
        self.is_kept = True
        os.register_at_fork(after_in_child=self._mute)

    def _mute(self) -> None:
        self.muted = True

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Within this context nothing is watched: the script does not do what happens there."""
        before, self.muted = self.muted, True
        try:
            yield
        finally:
            self.muted = before

    def write(self, kind: str, /, **details: Any) -> None:
        """Write one event.

        Args:
            kind: the event's kind: "batch", "call", "backward", "update" …
            details: any JSON data.
        """
        if self.is_kept and not self.muted:
            self._file.write(json.dumps(to_json({"event": kind, **details}), default=str) + "\n")
            self._file.flush()
