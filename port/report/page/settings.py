"""The run's options, where it ran, and how fast it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from port.records import Record, first_step_seconds, steps_per_second
from port.report.page.subject import Subject
from port.report.page.tables import Table

_NOT_MACHINE_FACTS = {"config", "layers", "criterion", "optimizer", "side", "precision", "total_steps"}
_NONE = "–"


def config_of(subjects: Sequence[Subject], config: Mapping[str, Any]) -> tuple[Table, list[str], list[str]]:
    """Return the options as a table, the names of options left at their defaults, and the names that differ by side."""
    configs = [_recorded_config(subjects, place) for place in (0, 1)]
    names = list(dict.fromkeys([*config, *configs[0], *configs[1]]))
    values = {name: tuple(of.get(name, config.get(name)) for of in configs) for name in names}
    differ = [name for name in names if all(name in of for of in configs) and configs[0][name] != configs[1][name]]
    absent = [name for name in names if values[name] == (None, None)]
    shown = [*differ, *(name for name in names if name not in differ and name not in absent)]
    if differ:
        rows = [[name, *map(in_words, values[name])] for name in shown]
        table = Table("config", ["", *subjects[0].labels], rows, frozenset(range(len(differ))))
    else:
        table = Table("config", ["", "value"], [[name, in_words(values[name][0])] for name in shown])
    return table, absent, differ


def machine_of(environment: Mapping[str, Any]) -> Table:
    """Return what a run depends on besides its config: the folder's ``environment.json``."""
    rows = [[name, in_words(value)] for name, value in environment.items() if not isinstance(value, Mapping)]
    packages = environment.get("packages")
    if isinstance(packages, Mapping):
        rows += [[str(name), in_words(version)] for name, version in packages.items()]
    return Table("machine and versions", ["", "value"], rows)


def sides_of(subjects: Sequence[Subject]) -> Table:
    """Return what each record's first line says about where it ran."""
    facts = {column: _machine_facts(record) for column, record in _columns(subjects)}
    names = dict.fromkeys(name for of in facts.values() for name in of)
    rows = [[name.replace("_", " "), *(in_words(of.get(name)) for of in facts.values())] for name in names]
    return Table("each side", ["", *facts], [row for row in rows if set(row[1:]) != {_NONE}])


def speed_of(subjects: Sequence[Subject]) -> Table:
    """Return the time of the first step, and the speed after it."""
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
    """Return a setting as readers write it."""
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value)) or _NONE
    return str(value)


def _recorded_config(subjects: Sequence[Subject], place: int) -> Mapping[str, Any]:
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


def _machine_facts(record: Record) -> dict[str, Any]:
    facts = {name: value for name, value in record.about.items() if name not in _NOT_MACHINE_FACTS}
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
