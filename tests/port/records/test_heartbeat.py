"""How far each rank is: what it leaves beside the record, alive, killed and at its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from port.records import Heartbeat
from port.records.heartbeat import Beat, read_beats
from port.records.recorder import RECORD_VARIABLE

KILLED = """
import os, signal, sys
from port.records.heartbeat import Heartbeat

with Heartbeat(sys.argv[1], 1) as beat:
    for step in range(42):
        beat(step)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RECORD_VARIABLE, raising=False)


def test_each_rank_says_its_process_and_its_step(tmp_path: Path) -> None:
    record = tmp_path / "jax.jsonl"
    with Heartbeat(record, 10) as tenth, Heartbeat(str(record), 2) as second:
        assert read_beats(record) == [Beat(2, os.getpid(), -1), Beat(10, os.getpid(), -1)]
        tenth(7)
        second(2**40)
        assert read_beats(record) == [Beat(2, os.getpid(), 2**40), Beat(10, os.getpid(), 7)]
        tenth(8)
        assert read_beats(record)[1].step == 8


def test_the_launcher_has_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = tmp_path / "not yet there" / "torch.jsonl"
    monkeypatch.setenv(RECORD_VARIABLE, str(launched))
    with Heartbeat(tmp_path / "own.jsonl", 0) as beat:
        beat(3)
        assert beat.path.parent == launched.parent
        assert [found.step for found in read_beats(launched)] == [3]
        assert read_beats(tmp_path / "own.jsonl") == []


@pytest.mark.skipif(sys.platform == "win32", reason="asks for SIGKILL")
def test_it_outlives_a_kill(tmp_path: Path) -> None:
    record = tmp_path / "torch.jsonl"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(record)])
    assert process.wait() == -signal.SIGKILL
    assert read_beats(record) == [Beat(1, process.pid, 41)]


def test_nothing_is_left_after_a_clean_end(tmp_path: Path) -> None:
    record = tmp_path / "torch.jsonl"
    with Heartbeat(record, 0) as first:
        first(5)
        with Heartbeat(record, 1) as second:
            second(6)
        assert [beat.rank for beat in read_beats(record)] == [0]
    assert list(tmp_path.iterdir()) == []
    assert read_beats(record) == []


def test_it_may_be_gone_already(tmp_path: Path) -> None:
    with Heartbeat(tmp_path / "torch.jsonl", 0) as beat:
        beat(0)
        beat.path.unlink()


@pytest.mark.parametrize("error", [ValueError("a NaN"), KeyboardInterrupt()])
def test_it_is_left_after_an_error(tmp_path: Path, error: BaseException) -> None:
    record = tmp_path / "torch.jsonl"
    with pytest.raises(type(error)), Heartbeat(record, 0) as beat:
        beat(5)
        raise error
    assert read_beats(record) == [Beat(0, os.getpid(), 5)]


def test_another_run_begins_anew(tmp_path: Path) -> None:
    record = tmp_path / "torch.jsonl"
    with pytest.raises(ValueError), Heartbeat(record, 0) as beat:
        beat(5)
        raise ValueError
    with Heartbeat(record, 0):
        assert [beat.step for beat in read_beats(record)] == [-1]


def test_what_is_no_beat_is_passed_over(tmp_path: Path) -> None:
    record = tmp_path / "torch.jsonl"
    record.write_text('{"kind": "run"}\n')
    with Heartbeat(record, 3) as beat:
        beat(9)
        whole = beat.path.read_bytes()
        for name in ("torch.rank-x", "torch.rank-", "torch.rank--1", "torch.rank-1.old", "torch.rank-4~", "jax.rank-5"):
            (tmp_path / name).write_bytes(whole)
        for rank, contents in enumerate((b"", whole[:-1], whole + b"\n"), start=6):
            (tmp_path / f"torch.rank-{rank}").write_bytes(contents)
        assert read_beats(record) == [Beat(3, os.getpid(), 9)]
        (tmp_path / "torch.rank-1").write_bytes(whole)
        assert [found.rank for found in read_beats(record)] == [1, 3], "with a rank's name it would be one"


def test_there_need_be_no_folder(tmp_path: Path) -> None:
    assert read_beats(tmp_path / "nowhere" / "torch.jsonl") == []


def test_a_rank_may_end_while_the_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, read_bytes = tmp_path / "torch.jsonl", Path.read_bytes

    def just_ended(path: Path) -> bytes:
        if path.suffix == ".rank-1":
            path.unlink()
        return read_bytes(path)

    with Heartbeat(record, 0), Heartbeat(record, 1):
        monkeypatch.setattr(Path, "read_bytes", just_ended)
        assert [beat.rank for beat in read_beats(record)] == [0]
