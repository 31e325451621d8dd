"""A watched script, and the folder for its written update."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from port.scripts.observation import Observation
from port.scripts.writing.capture import Capture
from port.scripts.writing.standalone import Finish


@dataclass(frozen=True)
class WatchedScript:
    """The arguments of a writer.

    Attributes:
        folder: the new folder to write into.
        name: the script's name.
        observation: the script's observation.
        capture: the captured steps.
        finish: the change to the files before they are proved.
    """

    folder: Path
    name: str
    observation: Observation
    capture: Capture
    finish: Finish
