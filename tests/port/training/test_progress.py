"""How far a trainer is, read from the end of its record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from port.training import progress
from port.training.progress import Progress, RecordTail


def line(**values: Any) -> str:
    return json.dumps(values) + "\n"


def step(number: int, seconds: float, **values: Any) -> str:
    return line(kind="step", step=number, loss=2.0 / (number + 1), seconds=seconds, **values)


class Written:
    """A record that grows, and what its tail has understood of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tail = RecordTail(path)

    def add(self, *texts: str) -> Progress:
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write("".join(texts))
        return self.read()

    def read(self) -> Progress:
        self.tail.poll()
        return self.tail.progress("torch float64", "running")


@pytest.fixture
def record(tmp_path: Path) -> Written:
    return Written(tmp_path / "record.jsonl")


class TestRecordTail:
    def test_a_missing_record_says_nothing(self, record: Written) -> None:
        assert record.read() == Progress(job="torch float64", state="running")

    def test_it_follows_a_run(self, record: Written) -> None:
        record.add(line(kind="run", side="torch", precision="float64", total_steps=500, start=1.0))
        assert record.read().total_steps == 500
        now = record.add(step(0, 5.0), step(1, 5.1))
        assert (now.step, now.steps_done, now.loss) == (1, 2, 1.0)
        now = record.add(line(kind="evaluation", step=1, epoch=0, loss=0.9, accuracy=0.75, seconds=5.2))
        assert (now.step, now.loss, now.accuracy) == (1, 1.0, 0.75)
        assert record.add(line(kind="end", seconds=5.3)) == now

    def test_a_half_written_line_waits_for_its_other_half(self, record: Written) -> None:
        whole = step(1, 0.2, note="é")
        record.add(step(0, 0.1))
        for cut in range(1, len(whole)):
            record.path.write_bytes(step(0, 0.1).encode())
            fresh = Written(record.path)
            assert fresh.add(whole[:cut]).step == 0
            assert fresh.add(whole[cut:]).step == 1

    def test_a_line_may_be_cut_within_a_character(self, record: Written) -> None:
        encoded = '{"kind": "step", "step": 3, "loss": 1, "note": "é"}\n'.encode()
        cut = encoded.index("é".encode()) + 1
        record.path.write_bytes(encoded[:cut])
        assert record.read().step is None
        record.path.write_bytes(encoded)
        assert record.read().step == 3

    def test_each_byte_is_read_once(self, record: Written, monkeypatch: pytest.MonkeyPatch) -> None:
        parsed: list[bytes] = []
        loads: Callable[[bytes], Any] = json.loads

        def counting(text: bytes) -> Any:
            parsed.append(text)
            return loads(text)

        monkeypatch.setattr(progress.json, "loads", counting)
        for number in range(20):
            record.add(step(number, number / 10))
            record.read()
        assert len(parsed) == 20

    @pytest.mark.parametrize(
        "odd",
        [
            "",
            "not JSON",
            "\x00\x00",
            "[1, 2]",
            "3",
            '{"loss": 0.5}',
            '{"step": "three"}',
            '{"step": true, "loss": 1}',
            '{"step": -1}',
            '{"step": 1.5}',
            '{"step": 1e999}',
            '{"kind": "weather", "step": 9}',
            '{"kind": ["step"], "step": 9}',
        ],
    )
    def test_lines_that_are_no_records_are_passed_over(self, record: Written, odd: str) -> None:
        record.add(step(0, 0.1))
        before = record.read()
        assert record.add(odd + "\n") == before
        assert record.add(step(1, 0.2)).step == 1

    def test_bytes_that_are_no_text_are_passed_over(self, record: Written) -> None:
        record.path.write_bytes(b'\xff\xfe"\n' + step(0, 0.1).encode())
        assert record.read().step == 0

    def test_a_users_own_record_may_lack_much(self, record: Written) -> None:
        now = record.add(line(step=0, loss=1.0), line(step=1), line(step=2, loss="high"), line(kind="evaluation"))
        assert now == Progress(job="torch float64", state="running", step=2)
        assert record.add(line(step=3, loss=0.25)).loss == 0.25
        assert record.add(line(kind="run", total_steps=None)).total_steps is None

    @pytest.mark.parametrize("written", ["Infinity", "-Infinity"])
    def test_a_loss_may_be_infinite(self, record: Written, written: str) -> None:
        assert record.add(line(kind="step", step=0, loss=written)).loss == float(written)

    def test_a_loss_may_be_no_number(self, record: Written) -> None:
        loss = record.add(line(kind="step", step=0, loss="NaN")).loss
        assert loss is not None
        assert loss != loss

    def test_a_record_written_anew_is_read_anew(self, record: Written) -> None:
        record.add(line(kind="run", total_steps=9), *(step(n, n) for n in range(5)))
        record.path.write_text(step(0, 0.1))
        now = record.read()
        assert (now.step, now.total_steps, now.steps_per_second) == (0, None, None)


class TestSpeed:
    def test_the_first_step_is_left_out(self, record: Written) -> None:
        assert record.add(step(0, 30.0)).steps_per_second is None
        assert record.add(step(1, 60.0)).steps_per_second is None
        assert record.add(step(2, 60.5), step(3, 61.0)).steps_per_second == pytest.approx(2.0)

    def test_evaluations_are_left_out(self, record: Written) -> None:
        steps = [step(0, 1.0), step(1, 2.0), step(2, 3.0)]
        evaluation = line(kind="evaluation", step=2, loss=1.0, duration=7.0, seconds=10.0)
        assert record.add(*steps, evaluation, step(3, 11.0)).steps_per_second == pytest.approx(1.0)

    def test_it_is_the_speed_of_late(self, record: Written) -> None:
        slow = [step(n, n * 1.0) for n in range(30)]
        fast = [step(30 + n, 29.0 + (n + 1) * 0.1) for n in range(200)]
        assert record.add(*slow).steps_per_second == pytest.approx(1.0)
        assert record.add(*fast).steps_per_second == pytest.approx(10.0)

    def test_a_clock_that_stands_still_says_nothing(self, record: Written) -> None:
        assert record.add(*(step(n, 1.0) for n in range(5))).steps_per_second is None

    def test_a_second_run_in_the_record_begins_anew(self, record: Written) -> None:
        record.add(step(0, 1.0), step(1, 2.0), step(2, 3.0))
        now = record.add(line(kind="run", total_steps=5))
        assert now == Progress(job="torch float64", state="running", total_steps=5)
        assert record.add(step(3, 4.0), step(4, 5.0)).steps_per_second is None

    def test_time_left_is_what_the_speed_makes_of_the_rest(self) -> None:
        running = Progress("a", "running", step=119, total_steps=500, steps_per_second=190.0)
        assert running.seconds_left == pytest.approx(2.0)
        assert Progress("a", "running", step=119, total_steps=500).seconds_left is None
        assert Progress("a", "running", step=119, steps_per_second=190.0).seconds_left is None
        assert Progress("a", "done", step=119, total_steps=500, steps_per_second=190.0).seconds_left is None
