"""Decide when enough was seen: a number of updates, one evaluation, and what follows it."""

from __future__ import annotations

from typing import Any

from port.scripts.observing.session import Session

PATIENCE = 4
"""How long to wait for an optimizer that has not stepped yet, as a multiple of the requested updates."""
EVALUATED = 2
"""How many batches of an evaluation are enough."""


class Enough:
    """Counts what was seen, ends loaders early once it is enough, and then ends the script.

    Args:
        session: the script's session.
        steps: how many updates of each optimizer to watch.
    """

    def __init__(self, session: Session, steps: int) -> None:
        self._session = session
        self._steps = steps
        self._updates: dict[str, int] = {}
        self._optimizers: set[str] = set()
        self._is_watched = False
        self._evaluated: set[int] = set()
        """Calls of models without gradients whose output reached no loss."""
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
        """Whether a pass over a loader ends here, after this many batches."""
        return (self._evaluates and batches >= EVALUATED) or (self._is_watched and not self._evaluates)

    def _has_watched(self) -> bool:
        if not self._updates:
            return False
        waits = self._optimizers - self._updates.keys()
        if waits and sum(self._updates.values()) < PATIENCE * self._steps:
            return False
        return min(self._updates.values()) >= self._steps
