"""Read the journal of an observed script: one JSON line per event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def read_events(path: Path) -> list[Event]:
    """Read every complete line of a journal; a killed process may leave a partial last line."""
    events: list[Event] = []
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            events.append(json.loads(line))
    return events


def line_key(event: Event) -> tuple[str, int]:
    """An event's file and line."""
    where = event.get("where") or {}
    return str(where.get("file")), int(where.get("line") or 0)
