"""What a trainer records is what is read back, whatever it hands over and however it ends."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from port.errors import BrokenRecord, FolderExists, NoLauncher, UsageError
from port.records import Record, Recorder, read_record
from port.records.recorder import MOST_PENDING

ROOT = Path(__file__).parents[3]
AWKWARD = [0.1 + 0.2, 1 / 3, 5e-324, 2.2250738585072e-308, 1e300, -0.0, 1.7976931348623157e308, 1e-300, 123456789.0]
NOT_FINITE = [math.nan, math.inf, -math.inf]


def bits(value: float) -> bytes:
    """A float's bits, every NaN being the same."""
    return struct.pack("<d", math.nan if math.isnan(value) else value)


def as_python(value: float) -> Any:
    return value


def as_jax64(value: float) -> Any:
    with jax.enable_x64(True):
        return jnp.asarray(value, jnp.float64)


FLOAT64 = {
    "python": as_python,
    "numpy-scalar": np.float64,
    "numpy-0d": lambda value: np.array(value),
    "numpy-1": lambda value: np.array([value]),
    "torch": lambda value: torch.tensor(value, dtype=torch.float64),
    "torch-1": lambda value: torch.tensor([value], dtype=torch.float64),
    "torch-grad": lambda value: torch.tensor(value, dtype=torch.float64, requires_grad=True) * 1,
    "jax": as_jax64,
    "jax-1": lambda value: as_jax64([value]),
}
FLOAT32 = {
    "numpy-scalar": np.float32,
    "numpy-0d": lambda value: np.array(value, np.float32),
    "torch": lambda value: torch.tensor(value, dtype=torch.float32),
    "torch-grad": lambda value: torch.tensor(value, dtype=torch.float32, requires_grad=True) * 1,
    "jax": lambda value: jnp.asarray(value, jnp.float32),
    "jax-1": lambda value: jnp.asarray([value], jnp.float32),
}
BFLOAT16 = {
    "torch": lambda value: torch.tensor(value, dtype=torch.bfloat16),
    "jax": lambda value: jnp.asarray(value, jnp.bfloat16),
}


class OnDevice:
    """What the recorder knows of a jax array; not ready until told."""

    dtype, size, shape = "float32", 1, ()

    def __init__(self, value: float) -> None:
        self.value, self.is_there, self.copies, self.fetches = value, False, 0, 0

    def copy_to_host_async(self) -> None:
        self.copies += 1

    def is_ready(self) -> bool:
        return self.is_there

    def item(self) -> float:
        self.fetches += 1
        return self.value


@pytest.fixture(autouse=True)
def nobody_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORT_RECORD", raising=False)
    monkeypatch.delenv("PORT_SIDE", raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "record.jsonl"


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every recorded line makes the recorder look for what is ready."""
    monkeypatch.setattr("port.records.recorder.FLUSH_SECONDS", -1.0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before the end."""
    monkeypatch.setattr("port.records.recorder.FLUSH_SECONDS", 600.0)


def written_steps(path: Path) -> list[int]:
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [line["step"] for line in lines if line["kind"] == "step"]


def recorded(path: Path, losses: list[Any], **about: Any) -> Record:
    with Recorder(path, **about) as record:
        for step, loss in enumerate(losses):
            record(step, loss=loss)
    return read_record(path)


class TestValues:
    @pytest.mark.parametrize("kind", FLOAT64)
    def test_float64_comes_back_to_the_last_bit(self, kind: str, path: Path) -> None:
        values = [*AWKWARD, *NOT_FINITE]
        read = recorded(path, [FLOAT64[kind](value) for value in values])
        assert [bits(line.loss) for line in read.steps.values()] == [bits(value) for value in values]
        assert read.precision == (None if kind == "python" else "float64")

    @pytest.mark.parametrize("kind", FLOAT32)
    def test_float32_comes_back_to_the_last_bit(self, kind: str, path: Path) -> None:
        values = [0.1, 1 / 3, 1e-45, 3.4028234e38, -0.0, *NOT_FINITE]
        read = recorded(path, [FLOAT32[kind](value) for value in values])
        assert [bits(line.loss) for line in read.steps.values()] == [bits(float(np.float32(v))) for v in values]
        assert read.precision == "float32"

    @pytest.mark.parametrize("kind", BFLOAT16)
    def test_bfloat16(self, kind: str, path: Path) -> None:
        read = recorded(path, [BFLOAT16[kind](0.1)])
        assert read.steps[0].loss == 0.10009765625
        assert read.precision == "bfloat16"

    @settings(deadline=None, max_examples=50)
    @given(losses=st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
    def test_any_float_comes_back(self, losses: list[float], tmp_path_factory: pytest.TempPathFactory) -> None:
        path = tmp_path_factory.getbasetemp() / "any-float.jsonl"
        path.unlink(missing_ok=True)
        read = recorded(path, losses)
        assert [bits(line.loss) for line in read.steps.values()] == [bits(loss) for loss in losses]

    def test_whatever_else_is_recorded_comes_back(self, path: Path) -> None:
        given = {
            "epoch": 3,
            "note": "é “x”\u2028\n",
            "huge": 2**70,
            "done": True,
            "lr": np.float32(0.1),
            "norm": math.inf,
        }
        with Recorder(path, seed=7, layers=[1, 2], folder=Path("a"), best=math.nan) as record:
            record(0, loss=1.0, **given, nothing=None)
            record.evaluation(0, loss=2, accuracy=torch.tensor(0.5), duration=0.25)
        read = read_record(path)
        assert read.steps[0].more == {**given, "lr": float(np.float32(0.1))}
        assert (read.evaluations[0].loss, read.evaluations[0].more) == (2.0, {"accuracy": 0.5, "duration": 0.25})
        assert (read.about["seed"], read.about["layers"]) == (7, [1, 2])
        assert (read.about["folder"], read.about["best"]) == ("a", "NaN")

    def test_each_line_is_json_to_others_than_python_too(self, path: Path) -> None:
        def refuse(token: str) -> None:
            raise AssertionError(f"{token} is no JSON")

        recorded(path, NOT_FINITE, best=math.nan)
        for line in path.read_text(encoding="utf-8").splitlines():
            json.loads(line, parse_constant=refuse)

    @pytest.mark.parametrize(
        "loss",
        [
            np.zeros(2),
            np.zeros((1, 0)),
            torch.zeros(3),
            jnp.zeros((2, 1)),
            [0.1, 0.2],
            1j,
            torch.tensor(1j),
            None,
            "0.5",
            True,
        ],
        ids=lambda loss: f"{type(loss).__module__}-{getattr(loss, 'shape', loss)}",
    )
    def test_a_loss_that_is_not_one_number_is_refused(self, loss: Any, path: Path) -> None:
        with Recorder(path) as record:
            with pytest.raises(UsageError, match="loss must be"):
                record(0, loss=loss)
            record(0, loss=1.0)  # the step was not taken
        assert read_record(path).steps[0].loss == 1.0

    def test_precision_is_the_first_losss_unless_told(self, tmp_path: Path) -> None:
        losses = [np.float32(1), np.float64(1)]
        assert recorded(tmp_path / "a", losses).precision == "float32"
        assert recorded(tmp_path / "b", losses[::-1]).precision == "float64"
        assert recorded(tmp_path / "c", losses, precision="float64").precision == "float64"
        assert recorded(tmp_path / "d", [1.0]).precision is None


class TestOrder:
    @pytest.mark.parametrize("second", [3, 2, 0, -1, 3.5])
    def test_a_step_that_does_not_come_after_the_last_is_refused(self, second: Any, path: Path) -> None:
        with Recorder(path) as record:
            record(3, loss=1.0)
            with pytest.raises(UsageError, match=f"got {second}"):
                record(second, loss=1.0)
        assert list(read_record(path).steps) == [3]

    def test_evaluations_have_an_order_of_their_own(self, path: Path) -> None:
        with Recorder(path) as record:
            record(0, loss=1.0)
            record(5, loss=1.0)
            record.evaluation(4, loss=1.0)
            for again in (4, 3):
                with pytest.raises(UsageError, match="evaluations are recorded once per step"):
                    record.evaluation(again, loss=1.0)
        assert list(read_record(path).evaluations) == [4]

    def test_nothing_is_recorded_before_step_0(self, path: Path) -> None:
        with Recorder(path) as record:
            with pytest.raises(UsageError, match="0 or later"):
                record(-1, loss=1.0)
            record(0, loss=1.0)

    def test_a_closed_recorder_refuses(self, path: Path) -> None:
        with Recorder(path) as record:
            record(0, loss=1.0)
        for take in (record, record.evaluation):
            with pytest.raises(UsageError, match="closed"):
                take(1, loss=1.0)
        record.close()  # twice does no harm
        assert list(read_record(path).steps) == [0]

    @pytest.mark.parametrize("name", ["kind", "seconds", "start"])
    def test_the_records_own_names_are_refused(self, name: str, path: Path) -> None:
        with pytest.raises(UsageError, match=name):
            Recorder(path, **{name: 1})
        with Recorder(path) as record:
            for take in (record, record.evaluation):
                with pytest.raises(UsageError, match=name):
                    take(0, loss=1.0, **{name: 1})


@pytest.mark.usefixtures("eager")
class TestLateFetching:
    def test_a_value_is_not_fetched_before_it_is_ready(self, path: Path) -> None:
        losses = [OnDevice(float(step)) for step in range(4)]
        with Recorder(path) as record:
            for step in range(3):
                record(step, loss=losses[step])
            assert [loss.copies for loss in losses] == [1, 1, 1, 0]
            assert [loss.fetches for loss in losses] == [0, 0, 0, 0]
            assert written_steps(path) == []

            losses[0].is_there = losses[2].is_there = True
            record(3, loss=losses[3])
            assert [loss.fetches for loss in losses] == [1, 0, 0, 0]  # 2 waits for 1: a record is in order
            assert written_steps(path) == [0]
        assert [loss.fetches for loss in losses] == [1, 1, 1, 1]
        assert [line.loss for line in read_record(path).steps.values()] == [0.0, 1.0, 2.0, 3.0]

    def test_every_value_of_a_line_must_be_ready(self, path: Path) -> None:
        loss, norm = OnDevice(1.0), OnDevice(2.0)
        loss.is_there = True
        with Recorder(path) as record:
            record(0, loss=loss, grad_norm=norm)
            assert (loss.fetches, norm.fetches) == (0, 0)

    def test_what_waits_is_bounded(self, path: Path) -> None:
        losses = [OnDevice(0.5) for _ in range(MOST_PENDING + 3)]
        with Recorder(path) as record:
            for step, loss in enumerate(losses):
                record(step, loss=loss)
            assert sum(loss.fetches for loss in losses) == 3
            assert written_steps(path) == [0, 1, 2]
        assert len(read_record(path).steps) == len(losses)

    def test_a_computation_that_fails_is_not_taken_for_a_deleted_array(self, path: Path) -> None:
        """What it waited for may have been another process, which has died."""

        class Failed(OnDevice):
            def item(self) -> float:
                raise RuntimeError("all-reduce failed: connection closed")

        with pytest.raises(RuntimeError, match=r"^all-reduce failed: connection closed"), Recorder(path) as record:
            record(0, loss=Failed(1.0))

    def test_a_donated_jax_array_is_not_asked_whether_it_is_ready(self, path: Path) -> None:
        loss, late = jnp.float32(1), OnDevice(1.0)
        with pytest.raises(UsageError, match="loss was deleted before it was fetched"), Recorder(path) as record:
            record(0, loss=loss, late=late)
            loss.delete()
            late.is_there = True
            record(1, loss=1.0)

    def test_a_jax_array_that_is_deleted_already(self, path: Path) -> None:
        loss = jnp.float32(1)
        loss.delete()
        with Recorder(path) as record, pytest.raises(UsageError, match="loss was deleted before it was recorded"):
            record(0, loss=loss)


@pytest.mark.usefixtures("patient")
class TestChangedAfterwards:
    def test_a_torch_tensor_may_be_changed_in_place_afterwards(self, path: Path) -> None:
        total, weight = torch.zeros(()), torch.zeros((), requires_grad=True)
        array = np.zeros(())
        with Recorder(path) as record:
            for step in range(3):
                record(step, loss=total, weight=weight, array=array)
                total += 1
                array += 1
                with torch.no_grad():
                    weight.add_(1)
        lines = read_record(path).steps.values()
        assert [(line.loss, line.more["weight"], line.more["array"]) for line in lines] == [
            (0.0, 0.0, 0.0),
            (1.0, 1.0, 1.0),
            (2.0, 2.0, 2.0),
        ]

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    def test_a_torch_tensor_on_a_gpu_may_be_changed_in_place_afterwards(self, path: Path) -> None:
        total = torch.zeros((), device="cuda")
        with Recorder(path) as record:
            for step in range(100):
                record(step, loss=total)
                total += 1
        assert [line.loss for line in read_record(path).steps.values()] == list(range(100))

    def test_a_jax_array_that_was_donated_before_it_was_fetched(self, path: Path) -> None:
        loss = jnp.float32(1)
        with pytest.raises(UsageError, match="loss was deleted before it was fetched"), Recorder(path) as record:
            record(0, loss=loss)
            jax.jit(lambda x: x + 1, donate_argnums=0)(loss)
            assert loss.is_deleted()


class TestEnding:
    def test_a_run_that_ends_says_so(self, path: Path) -> None:
        read = recorded(path, [1.0])
        assert read.finished
        assert read.seconds is not None
        assert read.steps[0].seconds is not None
        assert 0 <= read.steps[0].seconds <= read.seconds

    def test_an_exception_leaves_what_was_recorded_and_no_end(self, path: Path) -> None:
        with pytest.raises(ZeroDivisionError), Recorder(path) as record:
            for step in range(5):
                record(step, loss=OnDevice(float(step)))
            raise ZeroDivisionError
        read = read_record(path)
        assert list(read.steps) == [0, 1, 2, 3, 4]
        assert (read.finished, read.seconds) == (False, None)

    @pytest.mark.parametrize("end", ["os._exit(1)", "os.kill(os.getpid(), 9)"])
    def test_a_killed_trainer_leaves_whole_lines(self, end: str, path: Path) -> None:
        program = f"""
import os, time
from port.records import Recorder
with Recorder({str(path)!r}) as record:
    started, step = time.monotonic(), 0
    while time.monotonic() - started < 0.5:
        record(step, loss=0.1 * step)
        step += 1
        time.sleep(0.001)
    print(step, flush=True)
    {end}
"""
        trainer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, check=False)
        assert trainer.returncode != 0
        try:
            read = read_record(path)
        except BrokenRecord as error:
            whole, _, cut = path.read_text(encoding="utf-8").rpartition("\n")
            assert f"line {whole.count(chr(10)) + 2}: is cut off" in str(error)
            path.write_text(whole + "\n", encoding="utf-8")
            assert cut
            read = read_record(path)
        assert not read.finished
        assert [line.loss for line in read.steps.values()] == [0.1 * step for step in range(len(read.steps))]
        assert int(trainer.stdout) / 10 < len(read.steps) <= int(trainer.stdout)

    def test_lines_are_there_while_the_run_goes_on(self, path: Path) -> None:
        with Recorder(path) as record:
            deadline, step = time.monotonic() + 30, 0
            while not path.read_bytes() and time.monotonic() < deadline:
                record(step, loss=1.0)
                step += 1
                time.sleep(0.01)
            assert not read_record(path).finished
            assert len(read_record(path).steps) == step


class TestWhere:
    def test_a_record_is_not_overwritten_unasked(self, path: Path) -> None:
        recorded(path, [1.0])
        before = path.read_bytes()
        with pytest.raises(FolderExists, match="overwrite=True"):
            Recorder(path)
        assert path.read_bytes() == before
        with Recorder(path, overwrite=True) as record:
            record(0, loss=2.0)
        assert read_record(path).steps[0].loss == 2.0

    def test_without_a_path_it_asks_for_one(self) -> None:
        with pytest.raises(NoLauncher, match="pass a path"):
            Recorder()

    def test_the_launcher_has_the_last_word(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        launched, own = tmp_path / "launched.jsonl", tmp_path / "own.jsonl"
        launched.write_text("an earlier run's\n", encoding="utf-8")
        monkeypatch.setenv("PORT_RECORD", os.fspath(launched))
        monkeypatch.setenv("PORT_SIDE", "control-1")
        for path in (own, None):
            with Recorder(path, side="torch") as record:
                record(0, loss=1.0)
            assert read_record(launched).name == "control-1"
        assert not own.exists()

    @pytest.mark.parametrize(("about", "name"), [({"side": "torch"}, "torch"), ({}, "record")])
    def test_alone_its_own_side_counts(self, about: dict[str, Any], name: str, path: Path) -> None:
        assert recorded(path, [1.0], **about).name == name
