"""Cutting a record back to a checkpoint's step, so that a run that was killed can go on with it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from port.errors import BrokenRecord, UsageError


@dataclass(frozen=True)
class KeptRecord:
    """What is left of a record that was cut back.

    Attributes:
        is_empty: whether nothing is, not even the line that says what ran.
        last: the last step that is left of each kind, "step" and "evaluation"; -1 where there is none.
        seconds: on the last line that is left, since the recorder was opened first.
    """

    is_empty: bool
    last: dict[str, int]
    seconds: float


def cut_back(path: Path, step: int) -> KeptRecord:
    """Leave in the record what a run has written before it made ``step``, byte for byte.

    The lines of ``step`` and later ones go, the line that says that the run came to its end, and a last line that is
    cut off. The shorter record is written beside the old one and takes its place: who looks finds one of the two.

    Raises:
        UsageError: there is no record, or ``step`` is no step.
        BrokenRecord: a line before the last one is not what a record's line is, or the record ends before ``step``.
    """
    if isinstance(step, bool) or int(step) != step or step < 0:
        raise UsageError(f"a record is resumed at a step, a whole number from 0; got {step!r}")
    if not path.is_file():
        raise UsageError(f"there is no record at {path} to go on with: name the one that was begun, or begin anew")
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
            raise BrokenRecord(path, number, f"kind is {kind!r}; a record has run, step, evaluation and end")
        elif kept:
            raise BrokenRecord(path, number, "a second run begins here: one file holds one run")
        kept.append(line + b"\n")
    if last["step"] != step - 1:
        there = f"ends with step {last['step']}" if last["step"] >= 0 else "holds no step"
        why = f"{there}, and is to go on with step {step}: the checkpoint is of another run, or ahead of its record"
        raise BrokenRecord(path, None, f"{why}; take an older checkpoint, or begin anew")
    _replace(path, b"".join(kept))
    return KeptRecord(is_empty=not kept, last=last, seconds=seconds)


def what_ran(path: Path) -> dict[str, Any]:
    """What the record's first line says of the run, however the record ends; nothing where there is none yet."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        first = file.readline()
    try:
        values = json.loads(first)
    except (ValueError, RecursionError):  # killed while it wrote this line; `cut_back` complains of anything else
        return {}
    return values if isinstance(values, dict) and values.get("kind") == "run" else {}


def _lines(path: Path) -> list[tuple[int, bytes, dict[str, Any]]]:
    """The record's lines: number, bytes, values. Empty ones are left out, and a last one that is cut off."""
    lines = path.read_bytes().split(b"\n")
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # no newline ends it: the run was killed while it wrote
                break
            raise BrokenRecord(path, number, f"is not JSON ({error}): it cannot be gone on with") from error
        if not isinstance(values, dict):
            raise BrokenRecord(path, number, "is not a JSON object: it cannot be gone on with")
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
