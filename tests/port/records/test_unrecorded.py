"""What a rank that does not record has: it takes what the recorder takes, and writes nothing."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from port.records import Recorder, Unrecorded
from port.records.recorder import RECORD_VARIABLE

METHODS = [name for name, _ in inspect.getmembers(Recorder, inspect.isfunction) if not name.startswith("_")]
SPECIAL = ["__call__", "__enter__", "__exit__"]


def parameters(of: type, method: str) -> list[inspect.Parameter]:
    return list(inspect.signature(getattr(of, method)).parameters.values())


@pytest.mark.parametrize("method", METHODS + SPECIAL)
def test_it_takes_what_a_recorder_takes(method: str) -> None:
    assert parameters(Unrecorded, method) == parameters(Recorder, method)


def test_all_that_a_recorder_can_is_compared() -> None:
    assert set(METHODS) >= {"close", "evaluation", "flush"}
    assert len(parameters(Recorder, "evaluation")) == 5


def test_it_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RECORD_VARIABLE, str(tmp_path / "record.jsonl"))
    monkeypatch.chdir(tmp_path)
    with Unrecorded() as record:
        record(0, loss=2.5, lr=0.1)
        record.evaluation(0, loss=2.5, duration=0.1, accuracy=0.5)
        record.flush()
    assert list(tmp_path.iterdir()) == []


def test_an_error_goes_on_up() -> None:
    with pytest.raises(ValueError, match="a NaN"), Unrecorded() as record:
        record(0, loss=2.5)
        raise ValueError("a NaN")
