"""Explain why nothing of a script was recorded."""

from __future__ import annotations

from pathlib import Path

from port.errors import UsageError
from port.scripts.events import read_events
from port.scripts.observation import Observation
from port.scripts.refusals import refuse
from port.scripts.watched_original import WatchedOriginal


def untrained_error(folder: Path, original: WatchedOriginal, written: Path) -> UsageError:
    """The error that an observation of such a script gives; or one that says it trains on other batches.

    Args:
        folder: the journal's folder.
        original: what was recorded about the script when its JAX side was written.
        written: the folder of the JAX side.
    """
    events = read_events(folder / "events.jsonl")
    try:
        refuse(events, Observation.of(events, {}))
    except UsageError as error:
        return error
    on_all = not original.training and not original.calls
    made = "tensors that it makes before its loop" if on_all else "batches that it makes itself"
    what = f"batches of the loader {original.training}" if original.training else made
    return UsageError(
        f"the script does not train on {what}, for which {written} was written: write it again with port script"
    )
