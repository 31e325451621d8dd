"""When enough was seen: so many updates, one evaluation, and where the script goes on behind it."""

from __future__ import annotations

from typing import Any

from port.scripts.observing.session import Session

PATIENCE = 4
"""How many times the updates that were asked for are waited for an optimizer that has not stepped yet."""
EVALUATED = 2
"""Batches of an evaluation that are enough."""


class Enough:
    """Counts what was seen, lets loaders end early once it suffices, and ends the script.

    Args:
        session: the script's.
        steps: updates of each optimizer that are to be seen.
    """

    def __init__(self, session: Session, steps: int) -> None:
        self._session = session
        self._steps = steps
        self._updates: dict[str, int] = {}
        self._optimizers: set[str] = set()
        self._is_watched = False
        self._evaluated: set[int] = set()
        """Calls of models without gradients that no loss came from."""
        self._evaluates = False  # in this pass over a loader

    def see(self, kind: str, details: dict[str, Any]) -> None:
        """Take an event into account."""
        if kind == "optimizer" and any(group["trained"] for group in details["groups"]):
            self._optimizers.add(details["name"])
        elif kind == "updated" or (kind == "update" and details["by_hand"]):
            name = details.get("name", "by hand")
            self._updates[name] = self._updates.get(name, 0) + 1
        elif kind == "pass":
            self._evaluates = False
        elif kind == "call" and details["has_parameters"] and not (details["grad"] and details["training"]):
            self._evaluated.add(details["number"])
            self._evaluates = True
        elif kind == "backward":
            used = {call["number"] for call in details["path"]}
            self._evaluates = self._evaluates and not used & self._evaluated  # a teacher's call, a frozen trunk's
            self._evaluated -= used
            if self._is_watched and self._evaluated:
                self._session.end("seen")
        if not self._is_watched and self._has_watched() and kind != "update":
            self._is_watched = True
            self._session.tell("watched", moves=False)
            with self._session.inside():
                self._session.arrays.write()

    def ends_early(self, name: str, batches: int) -> bool:
        """Whether a pass over a loader, that has given so many batches, ends here."""
        return (self._evaluates and batches >= EVALUATED) or (self._is_watched and not self._evaluates)

    def _has_watched(self) -> bool:
        if not self._updates:
            return False
        waits = self._optimizers - self._updates.keys()
        if waits and sum(self._updates.values()) < PATIENCE * self._steps:
            return False
        return min(self._updates.values()) >= self._steps
