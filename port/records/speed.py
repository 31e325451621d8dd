"""The speed of a run, and the duration of its first step, in which JAX compiles."""

from __future__ import annotations

from port.records.read import Record


def first_step_seconds(record: Record) -> float | None:
    """Seconds until the first step was recorded: compilation, and the first batch. None if not recorded."""
    first = next(iter(record.steps.values()), None)
    return None if first is None else first.seconds


def steps_per_second(record: Record) -> float | None:
    """Steps per second after the first step, without evaluations. None if the record does not tell."""
    lines = list(record.steps.values())
    if len(lines) < 2:
        return None
    last = record.seconds if record.seconds is not None else lines[-1].seconds
    first = lines[0].seconds
    if first is None or last is None:
        return None
    spent = last - first
    for line in record.evaluations.values():
        duration = line.more.get("duration")
        if isinstance(duration, int | float) and line.seconds is not None and first < line.seconds <= last:
            spent -= duration
    return (len(lines) - 1) / spent if spent > 0 else None
