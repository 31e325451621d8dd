"""State shared by all observers: the journal, how each tensor was computed, the models' names, and the progress."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch

from port.scripts.observing.arrays import Arrays
from port.scripts.observing.graph import Computation, Computations
from port.scripts.observing.journal import Journal
from port.scripts.observing.known_models import KnownModels
from port.scripts.observing.lines import Position, adopt_the_loop, here, position, user_frames, went_back
from port.scripts.observing.statistics import FirstStatistics

OF_A_LOOP = {"switch", "zero_grad", "backward", "update", "schedule"}
"""Events that show that a package runs the training loop for the script."""


class Session:
    """One script under observation.

    An *iteration* is what the script does once per update, or per group of updates in turn: from the start of its loop
    until it is back there after an update.

    Attributes:
        folder: the output folder.
        journal: events.
        computations: how each tensor was computed.
        arrays: the weights and inputs stored with the observation.
        models: the names of the script's modules.
        statistics: running statistics before the first update's calls.
        iteration: the current iteration, from 0; 0 before the first update.
        updates: how many updates it has made, by an optimizer or by hand.
        hidden: the nesting depth of calls whose inside is not watched: a module, an optimizer, a loader's fetch.
        is_recording: whether functions are watched; not before there is a model, an optimizer or a batch.
        watch: called with every event; ends the script when enough was seen.
        at_backward: called with the path to each loss, and the loss.
        at_construction: called with each constructed module and its arguments.
        before_call: called with each module that the script calls.
        at_loader: called with each DataLoader that is iterated, by its name.
        at_pass: called with each DataLoader whose pass begins, by its name; returns the context of its fetches.
        at_batch: called with each batch, by its loader's name; returns the batch that the script gets.
        at_number: called with each value that leaves torch: the path to the tensor, its description, and the value.
        at_sum: called likewise with what is summed within torch (``total += x``, without gradients), and the line.
        modes: torch function modes that the script runs within, outermost first.
        at_end: called when all is seen, before the script is ended.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal(folder / "events.jsonl")
        self.models = KnownModels(self.tell_model)
        self.computations = Computations(self.models)
        self.arrays = Arrays(folder, self.models)
        self.statistics = FirstStatistics()
        self.iteration = 0
        self.updates = 0
        self.hidden = 0
        self.is_recording = False
        self.watch: Callable[[str, dict[str, Any]], object] = lambda kind, details: None
        self.at_backward: Callable[[list[Computation], Any], object] = lambda path, loss: None
        self.at_construction: Callable[[Any, tuple[Any, ...], dict[str, Any]], object] = lambda module, args, kwargs: (
            None
        )
        self.before_call: Callable[[Any], object] = lambda module: None
        self.at_loader: Callable[[str, Any], object] = lambda name, loader: None
        self.at_pass: Callable[[str, Any], Callable[[], AbstractContextManager[None]]] = lambda name, loader: (
            nullcontext
        )
        self.at_batch: Callable[[str, Any], Any] = lambda name, batch: batch
        self.at_number: Callable[[list[Computation], Any, Any], object] = lambda path, description, value: None
        self.at_sum: Callable[[list[Computation], Any, Any, dict[str, Any]], object] = lambda *added: None
        self.modes: list[AbstractContextManager[Any]] = []
        self.at_end: Callable[[], object] = lambda: None
        self._began = time.monotonic()
        self._updated_at: Position = ()
        self._thread = threading.get_ident()
        self._updated = False
        self._updated_by: Callable[[], object] = lambda: None

    @property
    def is_looking(self) -> bool:
        """Whether the script itself is acting, in the watched process and thread."""
        return not (self.hidden or self.journal.muted)

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is not the main thread."""
        return threading.get_ident() != self._thread

    def tell(self, kind: str, /, *, where: dict[str, Any] | None = None, moves: bool = True, **details: Any) -> None:
        """Write an event with the user's line and the iteration.

        Args:
            kind: the event's kind.
            where: the line; by default the one being executed.
            moves: whether it may begin an iteration.
            details: the event's other fields.
        """
        if self.journal.muted:
            return
        if kind in OF_A_LOOP:
            adopt_the_loop()
        if moves:
            self.move()
        where = where if where is not None else here()
        seconds = round(time.monotonic() - self._began, 4)
        count = self.computations.count
        self.journal.write(kind, iteration=self.iteration, seconds=seconds, calls=count, where=where, **details)
        self.watch(kind, details)

    def tell_model(self, details: dict[str, Any]) -> None:
        """Write the description of one of the script's modules."""
        self.tell("model", moves=False, **details)

    def move(self) -> None:
        """Update the position: begin an iteration if the loop has restarted since the last update."""
        if self._updated and went_back(self._updated_at, position(user_frames())):
            self._begin_iteration()

    def about_to_update(self, by: object) -> None:
        """Handle an optimizer about to step: if it made the last update, at the same position, the loop restarts."""
        if self._updated and by is self._updated_by() and self._updated_at == position(user_frames()):
            self._begin_iteration()

    def updated(self, by: object | None = None) -> None:
        """Record an update by the script, made by an optimizer if not by hand."""
        self.updates += 1
        self._updated = True
        self._updated_at = position(user_frames())
        self._updated_by = (lambda: None) if by is None else weakref.ref(by)

    def _begin_iteration(self) -> None:
        self._updated = False
        self.iteration += 1
        self.computations.begin_iteration(self.iteration)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Within this context nothing is watched."""
        self.hidden += 1
        try:
            yield
        finally:
            self.hidden -= 1

    def finish(self, reason: str, **details: Any) -> None:
        """Write the remaining events."""
        self.hidden += 1
        self.arrays.write()
        seconds = round(time.monotonic() - self._began, 4)
        self.journal.write("end", reason=reason, seconds=seconds, left_out=self.arrays.left_out, **details)
        self.journal.muted = True
        if not details.get("code"):
            self.at_end()

    def end(self, reason: str) -> None:
        """End the script here: enough was seen."""
        self.finish(reason)
        flush()
        os._exit(0)


def flush() -> None:
    """Flush the script's output."""
    import sys

    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def replace_method(cls: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Wrap a method or a module's function, keeping its name and docstring."""
    import functools

    original = vars(cls)[name] if isinstance(cls, type) else getattr(cls, name)
    setattr(cls, name, functools.wraps(original)(around(original)))


def is_grad_on() -> bool:
    """Whether gradients are recorded."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def noting_construction(places: Any, arguments: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A wrapper for ``__init__`` (see `replace_method`) that records the line at which each object is made.

    Args:
        places: filled with object → ``{"where": its line}``.
        arguments: if present, filled with object → its constructor's arguments after the first.
    """

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def construct(this: Any, *args: Any, **kwargs: Any) -> Any:
            if this not in places:
                places[this] = {"where": here()}
                if arguments is not None:
                    arguments[this] = args[1:], {key: value for key, value in kwargs.items() if key != "optimizer"}
            return original(this, *args, **kwargs)

        return construct

    return around
