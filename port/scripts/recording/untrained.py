"""Why nothing of a script was recorded, in words."""

from __future__ import annotations

from pathlib import Path

from port.errors import UsageError
from port.scripts.events import read_events
from port.scripts.observation import Observation
from port.scripts.refusals import refuse
from port.scripts.watched_original import WatchedOriginal


def why_untrained(folder: Path, original: WatchedOriginal, written: Path) -> UsageError:
    """What an observation of such a script says; or that it trains on other batches.

    Args:
        folder: of the journal.
        original: what was seen of the script when its JAX side was written.
        written: the folder of that side.
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
        f"the script trains, and not on {what}, for which {written} was written: write it again, by port script"
    )
