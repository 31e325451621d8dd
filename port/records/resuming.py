"""Truncates a record to a checkpoint's step, so that a killed run can resume."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from port.errors import BrokenRecord, UsageError


@dataclass(frozen=True)
class KeptRecord:
    """What is left of a truncated record.

    Attributes:
        is_empty: whether nothing is left, not even the ``run`` line.
        last: the last remaining step of each kind, "step" and "evaluation"; -1 if there is none.
        seconds: on the last remaining line, since the recorder was first opened.
    """

    is_empty: bool
    last: dict[str, int]
    seconds: float


def cut_back(path: Path, step: int) -> KeptRecord:
    """Keep what a run wrote to its record before ``step``, byte for byte.

    Lines of ``step`` and later are removed, and the ``end`` line, and a cut-off last line. The shorter record is
    written next to the old one and replaces it: readers find one of the two.

    Raises:
        UsageError: there is no record, or ``step`` is not a step.
        BrokenRecord: a line before the last one is invalid, or the record ends before ``step``.
    """
    if isinstance(step, bool) or int(step) != step or step < 0:
        raise UsageError(f"a record resumes at a step, a whole number from 0; got {step!r}")
    if not path.is_file():
        raise UsageError(
            f"there is no record at {path} to resume: pass the path of the existing one, or start a new run"
        )
    kept: list[bytes] = []
    last, seconds = {"step": -1, "evaluation": -1}, 0.0
    for number, line, values in _lines(path):
        kind, at = values.get("kind", "step"), values.get("step")
        if kind in last:
            if not isinstance(at, int) or isinstance(at, bool) or at < 0:
                raise BrokenRecord(path, number, f"step must be a whole number from 0, got {at!r}")
            if at >= step:
                continue
            if at <= last[kind]:
                raise BrokenRecord(path, number, f"{kind} {at} comes after {kind} {last[kind]}")
            last[kind] = at
            seconds = max(seconds, _number(values.get("seconds")))
        elif kind == "end":
            continue
        elif kind != "run":
            raise BrokenRecord(path, number, f"kind is {kind!r}; it must be run, step, evaluation or end")
        elif kept:
            raise BrokenRecord(path, number, "a second run begins here: one file holds one run")
        kept.append(line + b"\n")
    if last["step"] != step - 1:
        there = f"ends with step {last['step']}" if last["step"] >= 0 else "has no steps"
        why = f"{there}, but is to resume at step {step}: the checkpoint is of another run, or ahead of its record"
        raise BrokenRecord(path, None, f"{why}; use an older checkpoint, or start a new run")
    _replace(path, b"".join(kept))
    return KeptRecord(is_empty=not kept, last=last, seconds=seconds)


def what_ran(path: Path) -> dict[str, Any]:
    """Return the values of the record's ``run`` line, however the record ends; empty if it has none yet."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        first = file.readline()
    try:
        values = json.loads(first)
    except (ValueError, RecursionError):  # killed while writing this line; `cut_back` reports anything else
        return {}
    return values if isinstance(values, dict) and values.get("kind") == "run" else {}


def _lines(path: Path) -> list[tuple[int, bytes, dict[str, Any]]]:
    """The record's lines: number, bytes, values. Skips empty lines, and a cut-off last line."""
    lines = path.read_bytes().split(b"\n")
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # no newline ends it: the run was killed while writing
                break
            raise BrokenRecord(path, number, f"is not JSON ({error}): the record cannot be resumed") from error
        if not isinstance(values, dict):
            raise BrokenRecord(path, number, "is not a JSON object: the record cannot be resumed")
        found.append((number, line, values))
    return found


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.resuming")  # one name: what a kill leaves here, the next attempt takes away
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and value < 1e300 else 0.0
