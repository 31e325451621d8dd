"""A record that is resumed is what it would have been, wherever its run was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from port.errors import BrokenRecord, FolderExists, UsageError
from port.records import Recorder, first_step_seconds, read_record, steps_per_second, what_ran
from port.training.progress import RecordTail

ROOT = Path(__file__).parents[3]
EVALUATE_EVERY = 3


@pytest.fixture(autouse=True)
def nobody_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORT_RECORD", raising=False)
    monkeypatch.delenv("PORT_SIDE", raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "record.jsonl"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before it must be."""
    monkeypatch.setattr("port.records.recorder.FLUSH_SECONDS", 600.0)


def record_steps(record: Recorder, first: int, end: int) -> None:
    """What a trainer records of the steps from ``first`` to before ``end``."""
    for step in range(first, end):
        record(step, loss=1 / (step + 3), lr=0.1, epoch=step // EVALUATE_EVERY)
        if (step + 1) % EVALUATE_EVERY == 0:
            record.evaluation(step, loss=2 / (step + 3), accuracy=0.5, duration=1e-9)


def whole_run(path: Path, steps: int, **options: Any) -> list[bytes]:
    """The lines of a run that nobody killed."""
    with Recorder(path, side="torch", total_steps=steps, **options) as record:
        record_steps(record, 0, steps)
    return path.read_bytes().splitlines(keepends=True)


def without_seconds(lines: list[bytes]) -> list[dict[str, Any]]:
    own = {"seconds", "start"}
    return [{name: value for name, value in json.loads(line).items() if name not in own} for line in lines]


def lines_before(lines: list[bytes], step: int) -> list[bytes]:
    """The run line, and those of steps before ``step``."""
    return [line for line in lines if json.loads(line).get("step", -1) < step and json.loads(line)["kind"] != "end"]


class TestResume:
    @settings(deadline=None, max_examples=60)
    @given(data=st.data())
    def test_any_step_of_a_record_killed_anywhere(
        self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        folder = tmp_path_factory.mktemp("any")
        steps = data.draw(st.integers(1, 12), label="steps")
        expected = whole_run(folder / "whole.jsonl", steps)
        # The first so many lines are whole, and of the next one so many bytes were written.
        whole = data.draw(st.integers(1, len(expected)), label="whole lines")
        bytes_written = data.draw(st.integers(0, 200), label="bytes of the next one")
        torn = expected[whole][:-1][:bytes_written] if whole < len(expected) else b""
        path = folder / "killed.jsonl"
        path.write_bytes(b"".join(expected[:whole]) + torn)
        # A checkpoint is saved once all that is recorded of the steps before it is written.
        latest = max(step for step in range(steps + 1) if len(lines_before(expected, step)) <= whole)
        resume_at = data.draw(st.integers(0, latest), label="resume_at")
        with Recorder(path, side="torch", total_steps=steps, resume_at=resume_at) as record:
            assert path.read_bytes() == b"".join(lines_before(expected, resume_at))
            record_steps(record, resume_at, steps)
        assert without_seconds(path.read_bytes().splitlines()) == without_seconds(expected)
        assert path.read_bytes().startswith(b"".join(lines_before(expected, resume_at)))
        seconds = [line["seconds"] for line in map(json.loads, path.read_bytes().splitlines()) if "seconds" in line]
        assert seconds == sorted(seconds)
        assert read_record(path).finished
        assert [file.name for file in folder.iterdir() if file.name.startswith(".")] == []

    @pytest.mark.parametrize("torn", [b'{"kind": "end"}', b'{"kind": "step", "step": 6, "loss": 1.0}'])
    def test_a_whole_last_line_without_its_newline(self, path: Path, torn: bytes) -> None:
        expected = lines_before(whole_run(path, 6), 6)
        path.write_bytes(b"".join(expected) + torn)
        with Recorder(path, resume_at=6) as record:
            record(6, loss=1.0)
        assert path.read_bytes().startswith(b"".join(expected))
        assert list(read_record(path).steps) == list(range(7))

    def test_the_newline_of_the_last_line_to_keep_is_written(self, path: Path) -> None:
        expected = lines_before(whole_run(path, 5), 5)
        path.write_bytes(b"".join(expected).removesuffix(b"\n"))
        with Recorder(path, resume_at=5) as record:
            assert path.read_bytes() == b"".join(expected)
            record(5, loss=1.0)
        assert list(read_record(path).steps) == list(range(6))

    def test_a_run_that_had_ended_can_be_made_longer(self, path: Path) -> None:
        whole_run(path, 4)
        with Recorder(path, resume_at=4) as record:
            record(4, loss=1.0)
        assert list(read_record(path).steps) == list(range(5))

    def test_several_times(self, path: Path) -> None:
        expected = whole_run(path.with_name("whole.jsonl"), 9)
        with pytest.raises(KeyboardInterrupt), Recorder(path, side="torch", total_steps=9) as record:
            record_steps(record, 0, 5)
            raise KeyboardInterrupt
        for resume_at, killed_at in ((3, 7), (3, 4), (4, 9)):
            with pytest.raises(KeyboardInterrupt), Recorder(path, resume_at=resume_at) as record:
                record_steps(record, resume_at, killed_at)
                raise KeyboardInterrupt
        with Recorder(path, resume_at=9):
            pass
        assert without_seconds(path.read_bytes().splitlines()) == without_seconds(expected)

    def test_a_step_before_it_is_refused(self, path: Path) -> None:
        whole_run(path, 6)
        with Recorder(path, resume_at=4) as record:
            with pytest.raises(UsageError, match="got 3 after 3"):
                record(3, loss=1.0)
            with pytest.raises(UsageError, match="got 2 after 2"):
                record.evaluation(2, loss=1.0)
            record(4, loss=1.0)

    def test_from_the_first_step(self, path: Path) -> None:
        expected = whole_run(path, 3)
        with Recorder(path, resume_at=0) as record:
            assert path.read_bytes() == expected[0]
            record_steps(record, 0, 3)
        assert without_seconds(path.read_bytes().splitlines()) == without_seconds(expected)

    @pytest.mark.parametrize("content", [b"", b'{"kind": "ru'])
    def test_from_the_first_step_where_nothing_was_written_yet(self, content: bytes, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(content)
        with Recorder(path, resume_at=0, side="jax") as record:
            record(0, loss=1.0)
        assert read_record(path).about["side"] == "jax"

    def test_what_an_earlier_attempt_left_beside_it_hinders_nothing(self, path: Path) -> None:
        whole_run(path, 3)
        left = path.with_name(f".{path.name}.resuming")
        left.write_bytes(b"half of")
        Recorder(path, resume_at=3).close()
        assert not left.exists()
        assert list(read_record(path).steps) == [0, 1, 2]

    def test_the_launcher_has_the_last_word(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole_run(path, 3)
        monkeypatch.setenv("PORT_RECORD", str(path))
        with Recorder(path.with_name("elsewhere.jsonl"), resume_at=2) as record:
            record_steps(record, 2, 3)
        assert list(read_record(path).steps) == [0, 1, 2]
        assert not path.with_name("elsewhere.jsonl").exists()


class TestWhatRan:
    def test_it_is_the_first_line_however_the_record_ends(self, path: Path) -> None:
        whole_run(path, 4, config={"lr": 0.5})
        contents = path.read_bytes()
        path.write_bytes(contents[: -len(contents) // 3] + b'{"kind": "st')
        assert what_ran(path)["config"] == {"lr": 0.5}

    @pytest.mark.parametrize("content", [b"", b"{", b"[1]\n", b"\xff\n", b'{"kind": "step", "step": 0, "loss": 1}\n'])
    def test_where_there_is_none_it_is_nothing(self, path: Path, content: bytes) -> None:
        assert what_ran(path) == {}
        path.parent.mkdir()
        path.write_bytes(content)
        assert what_ran(path) == {}


class TestSeconds:
    def lines(self, path: Path) -> None:
        path.parent.mkdir()
        lines = [{"kind": "run", "side": "torch", "start": 5.0}]
        lines += [{"kind": "step", "step": step, "loss": 1.0, "seconds": 1000.0 + step} for step in range(4)]
        lines.insert(4, {"kind": "evaluation", "step": 2, "loss": 1.0, "duration": 0.5, "seconds": 1002.75})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def test_go_on_from_the_last_line_that_is_kept(self, path: Path) -> None:
        self.lines(path)
        with Recorder(path, resume_at=3) as record:
            record(3, loss=1.0)
        read = read_record(path)
        assert 1002.75 <= read.steps[3].seconds <= read.seconds < 1003.75 + 600
        assert first_step_seconds(read) == 1000.0
        speed = steps_per_second(read)
        assert speed == 3 / (read.seconds - 1000.0 - 0.5)

    @pytest.mark.parametrize("seconds", ["none", "NaN", int("9" * 400), None])
    def test_that_are_no_number_count_as_none(self, path: Path, seconds: Any) -> None:
        path.parent.mkdir()
        path.write_text(json.dumps({"kind": "step", "step": 0, "loss": 1.0, "seconds": seconds}) + "\n")
        with Recorder(path, resume_at=1) as record:
            record(1, loss=1.0)
        assert 0 <= json.loads(path.read_text().splitlines()[1])["seconds"] < 600

    def test_the_live_view_follows(self, path: Path) -> None:
        self.lines(path)
        with path.open("ab") as file:
            file.write(b'{"kind": "step", "step": 4, "lo')
        tail = RecordTail(path)
        tail.poll()
        assert tail.progress("torch", "running").step == 3
        with Recorder(path, resume_at=2) as record:
            tail.poll()
            assert tail.progress("torch", "running").step == 1
            record(2, loss=1.0)
            record(3, loss=1.0)
            record.flush()
            tail.poll()
            progress = tail.progress("torch", "running")
            assert progress.step == 3
            assert progress.steps_per_second is not None
            assert progress.steps_per_second > 0


class TestErrors:
    def test_nothing_there(self, path: Path) -> None:
        with pytest.raises(UsageError, match="there is no record"):
            Recorder(path, resume_at=3)
        assert not path.parent.exists()

    @pytest.mark.parametrize("resume_at", [5, 6, 100])
    def test_the_checkpoint_is_ahead_of_the_record(self, path: Path, resume_at: int) -> None:
        before = b"".join(whole_run(path, 4))
        with pytest.raises(BrokenRecord, match=f"ends with step 3, but is to resume at step {resume_at}: .* ahead"):
            Recorder(path, resume_at=resume_at)
        assert path.read_bytes() == before

    def test_a_step_that_is_torn_is_not_there(self, path: Path) -> None:
        whole = b"".join(lines_before(whole_run(path, 4), 4))
        path.write_bytes(whole[:-10])
        with pytest.raises(BrokenRecord, match="ends with step 2, but is to resume at step 4"):
            Recorder(path, resume_at=4)
        assert path.read_bytes() == whole[:-10]

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            (b'{"kind": "step", "st', "line 3: is not JSON"),
            (b"\xff\xfe{}", "line 3: is not JSON"),
            (b"[" * 100_000, "line 3: is not JSON"),
            (b"[1, 2]", "line 3: is not a JSON object"),
            (b'{"kind": "stop"}', "line 3: kind is 'stop'"),
            (b'{"kind": "run"}', "line 3: a second run"),
            (b'{"kind": "step", "step": 0}', "line 3: step 0 comes after step 0"),
            (b'{"kind": "step", "step": 1.5}', "line 3: step must be a whole number from 0, got 1.5"),
            (b'{"kind": "step", "step": true}', "line 3: step must be a whole number"),
            (b'{"kind": "evaluation"}', "line 3: step must be a whole number from 0, got None"),
        ],
    )
    def test_a_broken_line_in_the_middle(self, path: Path, line: bytes, why: str) -> None:
        lines = whole_run(path, 4)
        lines.insert(2, line + b"\n")
        path.write_bytes(b"".join(lines))
        with pytest.raises(BrokenRecord, match=f"record.jsonl, {why}"):
            Recorder(path, resume_at=4)
        assert path.read_bytes() == b"".join(lines)

    def test_a_step_between_is_missing(self, path: Path) -> None:
        lines = whole_run(path, 4)
        path.write_bytes(b"".join(lines[:2] + lines[3:]))
        with pytest.raises(BrokenRecord, match="ends with step 0, but is to resume at step 2"):
            Recorder(path, resume_at=2)

    @pytest.mark.parametrize("resume_at", [-1, 1.5, True])
    def test_no_step(self, path: Path, resume_at: Any) -> None:
        whole_run(path, 4)
        with pytest.raises(UsageError, match="a whole number from 0"):
            Recorder(path, resume_at=resume_at)

    def test_anew_and_going_on(self, path: Path) -> None:
        whole_run(path, 4)
        with pytest.raises(UsageError, match="pass only one of them"):
            Recorder(path, overwrite=True, resume_at=2)

    def test_without_it_nothing_is_gone_on_with(self, path: Path) -> None:
        whole_run(path, 4)
        with pytest.raises(FolderExists):
            Recorder(path)


class TestFlush:
    def test_writes_all_that_is_pending(self, path: Path, patient: None) -> None:
        with Recorder(path) as record:
            record_steps(record, 0, 4)
            assert path.read_bytes() == b""  # the planted fault: so it is without flush
            record.flush()
            assert list(read_record(path).steps) == [0, 1, 2, 3]
            record(4, loss=1.0)
            record.flush()
            assert list(read_record(path).steps) == [0, 1, 2, 3, 4]

    def test_sees_it_on_the_disk(self, path: Path, patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
        sizes = []
        monkeypatch.setattr(os, "fsync", lambda number: sizes.append(os.fstat(number).st_size))
        with Recorder(path) as record:
            record(0, loss=torch.tensor(0.5, dtype=torch.float64))
            record.flush()
        assert sizes[-1] > 0
        assert len(sizes) == 1

    def test_before_anything_and_after_all(self, path: Path) -> None:
        with Recorder(path) as record:
            record.flush()
            record(0, loss=1.0)
        record.flush()
        assert read_record(path).finished

    @pytest.mark.parametrize("resume_at", [None, 2])
    def test_a_killed_process_leaves_what_it_flushed(self, path: Path, resume_at: int | None) -> None:
        whole_run(path, 3)
        lines = [
            "import os, signal, port.records.recorder as recorder",
            "recorder.FLUSH_SECONDS = 600.0",
            f"record = recorder.Recorder({str(path)!r}, overwrite={resume_at is None}, resume_at={resume_at})",
            f"for step in range({resume_at or 0}, 7):",
            "    record(step, loss=1 / (step + 3))",
            "    if step == 4:",
            "        record.flush()",
            "os.kill(os.getpid(), signal.SIGKILL)",
        ]
        ended = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=ROOT)
        assert ended.returncode == -signal.SIGKILL
        assert list(read_record(path).steps) == [0, 1, 2, 3, 4]
        with Recorder(path, resume_at=5) as record:
            record(5, loss=1.0)
        assert list(read_record(path).steps) == [0, 1, 2, 3, 4, 5]
