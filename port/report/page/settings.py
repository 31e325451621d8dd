"""What the run was told, where it ran, and how fast it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from port.records import Record, first_step_seconds, steps_per_second
from port.report.page.subject import Subject
from port.report.page.tables import Table

_NOT_OF_THE_MACHINE = {"config", "layers", "criterion", "optimizer", "side", "precision", "total_steps"}
_NONE = "–"


def config_of(subjects: Sequence[Subject], config: Mapping[str, Any]) -> tuple[Table, list[str], list[str]]:
    """What the run was told: a table, the names of what was not given, and the names of what the sides differ in."""
    told = [_told(subjects, place) for place in (0, 1)]
    names = list(dict.fromkeys([*config, *told[0], *told[1]]))
    values = {name: tuple(of.get(name, config.get(name)) for of in told) for name in names}
    differ = [name for name in names if all(name in of for of in told) and told[0][name] != told[1][name]]
    absent = [name for name in names if values[name] == (None, None)]
    given = [*differ, *(name for name in names if name not in differ and name not in absent)]
    if differ:
        rows = [[name, *map(in_words, values[name])] for name in given]
        table = Table("config", ["", *subjects[0].labels], rows, frozenset(range(len(differ))))
    else:
        table = Table("config", ["", "value"], [[name, in_words(values[name][0])] for name in given])
    return table, absent, differ


def machine_of(environment: Mapping[str, Any]) -> Table:
    """What a run depends on beside its config: the folder's ``environment.json``."""
    rows = [[name, in_words(value)] for name, value in environment.items() if not isinstance(value, Mapping)]
    packages = environment.get("packages")
    if isinstance(packages, Mapping):
        rows += [[str(name), in_words(version)] for name, version in packages.items()]
    return Table("machine and versions", ["", "value"], rows)


def sides_of(subjects: Sequence[Subject]) -> Table:
    """What each record's first line says of where it ran."""
    told = {column: _of_the_machine(record) for column, record in _columns(subjects)}
    names = dict.fromkeys(name for of in told.values() for name in of)
    rows = [[name.replace("_", " "), *(in_words(of.get(name)) for of in told.values())] for name in names]
    return Table("each side", ["", *told], [row for row in rows if set(row[1:]) != {_NONE}])


def speed_of(subjects: Sequence[Subject]) -> Table:
    """The time of the first step, and the speed behind it."""
    columns = dict(_columns(subjects))
    rows: dict[str, Callable[[Record], str]] = {
        "first step, with compilation": lambda r: _seconds(first_step_seconds(r)),
        "steps/s after it": lambda r: _NONE if (speed := steps_per_second(r)) is None else f"{speed:.4g}",
        "in evaluations": lambda r: _seconds(_evaluating(r)),
        "the whole run": lambda r: _seconds(r.seconds),
    }
    filled = [[name, *(cell(record) for record in columns.values())] for name, cell in rows.items()]
    return Table("speed", ["", *columns], [row for row in filled if set(row[1:]) != {_NONE}])


def in_words(value: Any) -> str:
    """A setting, as one would write it."""
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value)) or _NONE
    return str(value)


def _told(subjects: Sequence[Subject], place: int) -> Mapping[str, Any]:
    for subject in subjects:
        side = subject.sides[place]
        config = side.about.get("config") if side is not None else None
        if isinstance(config, Mapping):
            return config
    return {}


def _columns(subjects: Sequence[Subject]) -> Iterable[tuple[str, Record]]:
    several = len(subjects) > 1
    for subject in subjects:
        for label, record in subject.records:
            yield f"{subject.name}, {label}" if several else label, record


def _of_the_machine(record: Record) -> dict[str, Any]:
    facts = {name: value for name, value in record.about.items() if name not in _NOT_OF_THE_MACHINE}
    start = facts.get("start")
    if isinstance(start, int | float) and 0 < start < 1e11:
        facts["start"] = f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return facts


def _seconds(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3g} s" if value < 1000 else f"{value:.0f} s"


def _evaluating(record: Record) -> float | None:
    durations = [line.more.get("duration") for line in record.evaluations.values()]
    numbers = [value for value in durations if isinstance(value, int | float)]
    return sum(numbers) if numbers else None
