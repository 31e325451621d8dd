"""What was observed of a script, as data: its parts, what each step did, and what differed between the steps.

`observation.schema.json` documents each field, and the kinds of events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.scripts.differences import differences_between
from port.scripts.events import Event, read_events
from port.scripts.steps import epochs_events, evaluation_events, step_events

FILE = "observation.json"
VERSION = 1


@dataclass(frozen=True)
class Observation:
    """A description of what a script does.

    Attributes:
        script: how it ran: command, folder, Python's and torch's version, duration, and how it ended.
        options: argparse options, each with its flags, type, default, help, and the value passed.
        seeds: which generator was seeded where, and with what.
        models: each with its class, how it was constructed, its parameters, which are trained.
        loaders: DataLoaders, with dataset, batch size, sampler.
        optimizers: with their groups' options and parameters.
        schedulers: with their options.
        steps: the events of each watched step, in order; a backward event has the path from the batch to its loss.
        differences: what differed between the steps.
        epoch: what happened after the watched steps: schedulers, checkpoints.
        evaluation: the events of the first evaluation.
        printed: where something is printed or logged, and what, the first time.
        saved: where something is saved, and what.
        others: anything else: averages, initialisations, compile, gradient hooks, threads, processes.
    """

    script: dict[str, Any]
    options: list[dict[str, Any]] = field(default_factory=list)
    seeds: list[Event] = field(default_factory=list)
    models: list[Event] = field(default_factory=list)
    loaders: list[Event] = field(default_factory=list)
    optimizers: list[Event] = field(default_factory=list)
    schedulers: list[Event] = field(default_factory=list)
    steps: list[list[Event]] = field(default_factory=list)
    differences: list[dict[str, Any]] = field(default_factory=list)
    epoch: list[Event] = field(default_factory=list)
    evaluation: list[Event] = field(default_factory=list)
    printed: list[Event] = field(default_factory=list)
    saved: list[Event] = field(default_factory=list)
    others: list[Event] = field(default_factory=list)

    @classmethod
    def of(cls, events: Sequence[Event], script: dict[str, Any]) -> Observation:
        """Build the observation from a journal's events."""
        steps = step_events(events)
        return cls(
            script={**script, **_how_it_ran(events)},
            options=_options(events),
            seeds=_of(events, "seed"),
            models=[one for one in _last_of_each(_of(events, "model")) if "renamed" not in one],
            loaders=_of(events, "loader"),
            optimizers=_of(events, "optimizer"),
            schedulers=_of(events, "scheduler"),
            steps=steps,
            differences=differences_between(steps),
            epoch=epochs_events(events, steps),
            evaluation=evaluation_events(events, steps),
            printed=_first_of_each_line(_of(events, "print", "log")),
            saved=_first_of_each_line(_of(events, "save")),
            others=_first_of_each_line(
                _of(events, "initialised", "compile", "gradient hook", "thread", "process", "load", "ended early")
            ),
        )

    def trained_on(self) -> Event | None:
        """Where the first batch that is trained on is fetched: a script may fetch one before, to print its shape."""
        last = None
        for event in (event for step in self.steps for event in step):
            if event["event"] == "batch":
                last = event["where"]
            elif event["event"] == "backward" and last is not None:
                break
        return last

    @classmethod
    def read(cls, folder: Path) -> Observation:
        """Read the observation that was written into a folder.

        Raises:
            UsageError: there is none, or another version of port wrote it.
        """
        try:
            data = json.loads((folder / FILE).read_text("utf-8"))
            if data.pop("version", None) != VERSION:
                raise UsageError(f"{folder / FILE} was written by another version of port: observe the script again")
            return cls(**data)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{folder / FILE} cannot be read: {error}") from error

    @property
    def launcher(self) -> tuple[str, ...]:
        """The launcher that started it in several processes; empty in observations from before launchers existed."""
        return tuple(self.script.get("launcher", ()))

    def as_data(self) -> dict[str, Any]:
        """The observation as JSON data."""
        return {"version": VERSION, **asdict(self)}


def schema() -> Any:
    """Return the JSON schema of ``observation.json``."""
    return json.loads((files("port.scripts") / "observation.schema.json").read_text("utf-8"))


def observation_of(journal: Path, script: dict[str, Any]) -> Observation:
    """Build the observation of a script from its journal."""
    return Observation.of(read_events(journal), script)


def _of(events: Iterable[Event], *kinds: str) -> list[Event]:
    return [event for event in events if event["event"] in kinds]


def _last_of_each(events: list[Event]) -> list[Event]:
    return list({event["name"]: event for event in events}.values())


def _first_of_each_line(events: list[Event]) -> list[Event]:
    found: dict[Any, Event] = {}
    for event in events:
        where = event.get("where") or {}
        found.setdefault((event["event"], where.get("file"), where.get("line")), event)
    return list(found.values())


def _options(events: Sequence[Event]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for event in _of(events, "options"):
        values = event["given"]
        found += [
            {**option, "given": values.get(option["name"]), "where": event["where"]} for option in event["options"]
        ]
    return found


def _how_it_ran(events: Sequence[Event]) -> dict[str, Any]:
    begin, end = events[0], events[-1]
    run = {"python": begin.get("python"), "torch": begin.get("torch"), "ended": end.get("reason")}
    return {**run, "seconds": end.get("seconds"), "left_out": end.get("left_out", [])}
