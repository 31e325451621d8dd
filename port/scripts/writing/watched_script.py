"""A script whose steps were watched, and where its update is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from port.scripts.observation import Observation
from port.scripts.writing.capture import Capture
from port.scripts.writing.standalone import Finish


@dataclass(frozen=True)
class WatchedScript:
    """What a writer is given.

    Attributes:
        folder: where it writes; a new one.
        name: the script's.
        observation: of it.
        capture: what was kept of its steps.
        finish: what is done to the files before they are proved.
    """

    folder: Path
    name: str
    observation: Observation
    capture: Capture
    finish: Finish
