"""The journal: what was seen, a line of JSON an event, written as it happens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from port.records.json_numbers import to_json


class Journal:
    """Writes events into a file; in a process that was forked from this one, nothing.

    Attributes:
        muted: nothing is looked at any more, and nothing written.
        is_kept: whether events are written.
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
        """Within it nothing is looked at: what happens there is no doing of the script's."""
        before, self.muted = self.muted, True
        try:
            yield
        finally:
            self.muted = before

    def write(self, kind: str, /, **details: Any) -> None:
        """Write one event.

        Args:
            kind: what it is: "batch", "call", "backward", "update" …
            details: anything that JSON can say.
        """
        if self.is_kept and not self.muted:
            self._file.write(json.dumps(to_json({"event": kind, **details}), default=str) + "\n")
            self._file.flush()
