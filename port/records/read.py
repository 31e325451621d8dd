"""Reads records, line by line, and rejects broken ones, naming file and line."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from port.errors import BrokenRecord
from port.records.json_numbers import NOT_FINITE


@dataclass(frozen=True)
class RecordLine:
    """One step or one evaluation.

    Attributes:
        step: the training step, from 0; for an evaluation, the last step before it.
        loss: as the trainer computed it, to the last bit.
        seconds: since the recorder was opened.
        more: all other values on the line: epoch, lr, grad_norm, accuracy …
    """

    step: int
    loss: float
    seconds: float | None
    more: dict[str, Any]


@dataclass(frozen=True)
class Record:
    """The record of one run.

    Attributes:
        path: the file.
        about: its ``run`` line: side, precision, devices, versions …
        steps: by step, in order.
        evaluations: by step, in order.
        finished: whether the trainer recorded that it finished.
        seconds: the duration of the whole run, if it finished.
    """

    path: Path
    about: dict[str, Any] = field(default_factory=dict)
    steps: dict[int, RecordLine] = field(default_factory=dict)
    evaluations: dict[int, RecordLine] = field(default_factory=dict)
    finished: bool = False
    seconds: float | None = None

    @property
    def precision(self) -> str | None:
        """The precision: "float64", "float32" …, or None if the record does not name it."""
        return self.about.get("precision")

    @property
    def name(self) -> str:
        """The name of this record in tables: its side, or its file's name."""
        return self.about.get("side") or self.path.stem


def read_record(path: Path | str, *, torn: bool = False) -> Record:
    """Read a record.

    Args:
        path: the file.
        torn: ignore a last line without a newline, as a killed trainer leaves it.

    Raises:
        BrokenRecord: the file is missing or empty, or a line is invalid; names the line.
    """
    path = Path(path)
    text = _read_text(path)
    about: dict[str, Any] | None = None
    steps: dict[int, RecordLine] = {}
    evaluations: dict[int, RecordLine] = {}
    end: dict[str, Any] | None = None
    lines = text.split("\n")  # not splitlines, which splits at more characters than JSON lines do
    for number, written in enumerate(lines, start=1):
        if not written.strip() or (torn and number == len(lines)):
            continue
        values = _parse(path, number, written, is_last=number == len(lines))
        kind = values.pop("kind", "step")
        if end is not None:
            raise BrokenRecord(
                path, number, "comes after the line that ends the record: are these two runs in one file?"
            )
        if kind == "run":
            if about is not None or steps or evaluations:
                raise BrokenRecord(path, number, "a second run begins here: one file holds one run")
            if not isinstance(values.get("precision"), str | None):
                raise BrokenRecord(path, number, f"precision must be a name, got {values['precision']!r}")
            about = values
        elif kind == "end":
            end = values
        elif kind in ("step", "evaluation"):
            line = _line(path, number, values)
            into = steps if kind == "step" else evaluations
            if into and line.step <= next(reversed(into)):
                raise BrokenRecord(path, number, f"{kind} {line.step} comes after {kind} {next(reversed(into))}")
            into[line.step] = line
        else:
            raise BrokenRecord(path, number, f"kind is {kind!r}; it must be run, step, evaluation or end")
    if not steps:
        raise BrokenRecord(path, None, "has no steps: the trainer recorded nothing, or ended before its first step")
    return Record(
        path=path,
        about=about or {},
        steps=steps,
        evaluations=evaluations,
        finished=end is not None,
        seconds=_number_or_none(end.get("seconds")) if end else None,
    )


def _read_text(path: Path) -> str:
    if path.is_dir():
        inside = ", ".join(str(record) for record in sorted([*path.glob("*.jsonl"), *path.glob("*/*.jsonl")])[:6])
        raise BrokenRecord(path, None, f"is a folder, but a record is a file: {inside or 'the folder has none'}")
    try:
        encoded = path.read_bytes()
    except OSError as error:
        raise BrokenRecord(path, None, f"cannot be read as a record: {error.strerror or error}") from error
    try:
        return encoded.decode("utf-8")
    except UnicodeDecodeError as error:
        number = encoded.count(b"\n", 0, error.start) + 1
        raise BrokenRecord(path, number, f"cannot be read as a record: it is not UTF-8 ({error.reason})") from error


def _parse(path: Path, number: int, written: str, *, is_last: bool) -> dict[str, Any]:
    """Parse the line's values; ``is_last`` if no newline ends it."""
    try:
        values = json.loads(written, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        why = f"is not JSON ({what}): {_shortened(written)}"
        if is_last:
            why = f"is cut off, as when a trainer is killed while it writes: {_shortened(written)}; "
            why += "delete this line to compare the steps before it"
        raise BrokenRecord(path, number, why) from error
    if not isinstance(values, dict):
        raise BrokenRecord(path, number, f"is not a JSON object: {_shortened(written)}")
    return values


def _parse_int(digits: str) -> int:
    if math.isinf(float(digits)):
        raise ValueError("a whole number that no float can hold")
    return int(digits)


def _line(path: Path, number: int, values: dict[str, Any]) -> RecordLine:
    step = values.pop("step", None)
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise BrokenRecord(path, number, f"step must be a whole number from 0, got {step!r}")
    if "loss" not in values:
        raise BrokenRecord(path, number, f"step {step} has no loss")
    written = values.pop("loss")
    loss = _number_or_none(written)
    if loss is None:
        raise BrokenRecord(path, number, f"loss must be a number, got {written!r}")
    seconds = _number_or_none(values.pop("seconds", None))
    more = {name: NOT_FINITE.get(value, value) if isinstance(value, str) else value for name, value in values.items()}
    return RecordLine(step=step, loss=loss, seconds=seconds, more=more)


def _number_or_none(value: Any) -> float | None:
    if isinstance(value, str):
        return NOT_FINITE.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "…"
