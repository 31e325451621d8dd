"""A record is read as it was written, and a broken one is refused by naming its file and line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.errors import BrokenRecord
from port.records import Record, read_record

RUN = '{"kind": "run", "side": "torch", "precision": "float64"}'
STEP_0 = '{"kind": "step", "step": 0, "loss": 1.5}'
STEP_1 = '{"kind": "step", "step": 1, "loss": 1.25}'
EVALUATION_0 = '{"kind": "evaluation", "step": 0, "loss": 1.4}'
END = '{"kind": "end", "seconds": 2.5}'
DIGITS = "1" + "0" * 400  # no float is as large
MORE_DIGITS = "1" + "0" * 5000  # nor does Python itself read as many


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.jsonl"


def read(path: Path, *lines: str) -> Record:
    path.write_bytes("\n".join([*lines, ""]).encode())
    return read_record(path)


def refusal(path: Path) -> str:
    with pytest.raises(BrokenRecord) as refused:
        read_record(path)
    return str(refused.value)


class TestWhole:
    def test_all_kinds_of_line(self, path: Path) -> None:
        record = read(path, RUN, STEP_0, EVALUATION_0, STEP_1, END)
        assert (record.path, record.name, record.precision) == (path, "torch", "float64")
        assert [(line.step, line.loss) for line in record.steps.values()] == [(0, 1.5), (1, 1.25)]
        assert [(line.step, line.loss) for line in record.evaluations.values()] == [(0, 1.4)]
        assert (record.finished, record.seconds) == (True, 2.5)

    def test_two_numbers_a_line_are_enough(self, path: Path) -> None:
        record = read(path, '{"step": 10, "loss": 1}', '{"step": 20, "loss": 2, "lr": 0.1}')
        assert [(step, line.loss, line.more) for step, line in record.steps.items()] == [
            (10, 1.0, {}),
            (20, 2.0, {"lr": 0.1}),
        ]
        assert (record.name, record.precision, record.finished) == ("record", None, False)

    def test_blank_lines_and_windows_line_ends(self, path: Path) -> None:
        path.write_bytes("\r\n".join(["", RUN, "  ", STEP_0, "", STEP_1, " "]).encode())
        assert list(read_record(path).steps) == [0, 1]

    def test_a_whole_last_line_needs_no_newline(self, path: Path) -> None:
        path.write_text(STEP_0 + "\n" + STEP_1, encoding="utf-8")
        assert list(read_record(path).steps) == [0, 1]

    def test_a_line_ends_at_a_newline_and_nowhere_else(self, path: Path) -> None:
        line = json.dumps({"step": 0, "loss": 1.0, "note": "a\u2028b\x85c"}, ensure_ascii=False)
        assert read(path, line, STEP_1).steps[0].more["note"] == "a\u2028b\x85c"
        path.write_text(f"{line}\nnonsense\n", encoding="utf-8")
        assert f"{path}, line 2: is not JSON" in refusal(path)

    @pytest.mark.parametrize("written", ["NaN", '"NaN"', "Infinity", '"Infinity"', "-Infinity", '"-Infinity"'])
    def test_what_is_not_finite(self, written: str, path: Path) -> None:
        line = read(path, f'{{"step": 0, "loss": {written}, "grad_norm": {written}}}').steps[0]
        for value in (line.loss, line.more["grad_norm"]):
            assert repr(value) == repr(float(written.strip('"')))

    def test_a_run_line_without_values(self, path: Path) -> None:
        assert read(path, '{"kind": "run"}', STEP_0).about == {}

    @settings(deadline=None, max_examples=50)
    @given(losses=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
    def test_any_float(self, losses: list[float], tmp_path_factory: pytest.TempPathFactory) -> None:
        path = tmp_path_factory.getbasetemp() / "any-float.jsonl"
        record = read(path, *(json.dumps({"step": step, "loss": loss}) for step, loss in enumerate(losses)))
        assert [line.loss for line in record.steps.values()] == losses
        assert [math.copysign(1, line.loss) for line in record.steps.values()] == [
            math.copysign(1, loss) for loss in losses
        ]


BROKEN: dict[str, tuple[list[str], int, str]] = {
    "no JSON": ([RUN, "loss: 0.5"], 2, "is not JSON"),
    "cut off in the middle": ([RUN, STEP_0, STEP_1[:20], STEP_1], 3, "is not JSON"),
    "two objects": ([STEP_0 + STEP_1], 1, "is not JSON"),
    "a list": ([STEP_0, "[1, 0.5]"], 2, "is not a JSON object"),
    "a number": ([STEP_0, "0.5"], 2, "is not a JSON object"),
    "a string": ([STEP_0, '"step"'], 2, "is not a JSON object"),
    "null": ([STEP_0, "null"], 2, "is not a JSON object"),
    "nested without end": ([STEP_0, "[" * 100_000], 2, "is not JSON"),
    "no step": (['{"loss": 1}'], 1, "step must be a whole number from 0, got None"),
    "step is a word": (['{"step": "NaN", "loss": 1}'], 1, "step must be"),
    "step is NaN": (['{"step": NaN, "loss": 1}'], 1, "step must be"),
    "step below 0": (['{"step": -1, "loss": 1}'], 1, "step must be"),
    "step is true": (['{"step": true, "loss": 1}'], 1, "step must be"),
    "step is a float": (['{"step": 1.0, "loss": 1}'], 1, "step must be"),
    "step is huge": ([f'{{"step": {DIGITS}, "loss": 1}}'], 1, "no float can hold"),
    "no loss": ([STEP_0, '{"step": 1}'], 2, "step 1 has no loss"),
    "loss is a word": ([STEP_0, '{"step": 1, "loss": "low"}'], 2, "loss must be a number, got 'low'"),
    "loss is a number in words": ([STEP_0, '{"step": 1, "loss": "0.5"}'], 2, "loss must be a number"),
    "loss is null": ([STEP_0, '{"step": 1, "loss": null}'], 2, "loss must be a number"),
    "loss is true": ([STEP_0, '{"step": 1, "loss": true}'], 2, "loss must be a number"),
    "loss is a list": ([STEP_0, '{"step": 1, "loss": [0.5]}'], 2, "loss must be a number"),
    "loss is huge": ([STEP_0, f'{{"step": 1, "loss": {DIGITS}}}'], 2, "no float can hold"),
    "loss is huger": ([STEP_0, f'{{"step": 1, "loss": -{MORE_DIGITS}}}'], 2, "no float can hold"),
    "something else is huge": ([f'{{"step": 1, "loss": 1, "lr": {DIGITS}}}'], 1, "no float can hold"),
    "the end is huge": ([STEP_0, f'{{"kind": "end", "seconds": {DIGITS}}}'], 2, "no float can hold"),
    "a step again": ([RUN, STEP_0, STEP_0], 3, "step 0 comes after step 0"),
    "a step too late": ([RUN, STEP_1, STEP_0], 3, "step 0 comes after step 1"),
    "an evaluation again": ([STEP_0, EVALUATION_0, EVALUATION_0], 3, "evaluation 0 comes after evaluation 0"),
    "an evaluation without loss": ([STEP_0, '{"kind": "evaluation", "step": 0}'], 2, "has no loss"),
    "a second run": ([RUN, STEP_0, RUN, STEP_0], 3, "one file holds one run"),
    "a second run at once": (['{"kind": "run"}', '{"kind": "run"}', STEP_0], 2, "one file holds one run"),
    "a run too late": ([STEP_0, RUN], 2, "one file holds one run"),
    "a run after the end": ([RUN, STEP_0, END, RUN, STEP_0, END], 4, "two runs in one file"),
    "a step after the end": ([STEP_0, END, STEP_1], 3, "two runs in one file"),
    "an unknown kind": ([STEP_0, '{"kind": "epoch", "step": 1}'], 2, "kind is 'epoch'"),
    "no kind of kind": ([STEP_0, '{"kind": ["step"], "step": 1}'], 2, r"kind is ['step']"),
    "precision is a number": (['{"kind": "run", "precision": 64}', STEP_0], 1, "precision must be a name, got 64"),
    "precision is a list": (['{"kind": "run", "precision": []}', STEP_0], 1, "precision must be a name"),
}


class TestBroken:
    @pytest.mark.parametrize("name", BROKEN)
    def test_file_line_and_reason_are_named(self, name: str, path: Path) -> None:
        lines, number, why = BROKEN[name]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        message = refusal(path)
        assert message.startswith(f"{path}, line {number}: ")
        assert why in message
        assert len(message) < len(str(path)) + 250

    def test_blank_lines_are_counted(self, path: Path) -> None:
        path.write_text(f"\n\n{STEP_0}\n\nnonsense\n", encoding="utf-8")
        assert f"{path}, line 5: " in refusal(path)

    def test_a_cut_off_last_line_comes_with_advice(self, path: Path) -> None:
        for cut in range(1, len(STEP_1)):
            path.write_text(f"{RUN}\n{STEP_0}\n{STEP_1[:cut]}", encoding="utf-8")
            message = refusal(path)
            assert message.startswith(f"{path}, line 3: is cut off")
            assert "delete this line" in message
        assert list(read(path, RUN, STEP_0).steps) == [0]  # which the advice is right about

    def test_what_is_not_utf8(self, path: Path) -> None:
        path.write_bytes(f"{RUN}\n{STEP_0}\n".encode() + b'{"step": 1, "loss": 1, "note": "\xff"}\n')
        assert refusal(path).startswith(f"{path}, line 3: cannot be read as a record: it is not UTF-8")

    def test_another_kind_of_file(self, path: Path) -> None:
        path.write_bytes(b"PK\x03\x04\x00\x00")
        assert refusal(path).startswith(f"{path}, line 1: ")

    def test_a_missing_file(self, path: Path) -> None:
        assert refusal(path).startswith(f"{path}: cannot be read as a record: No such file")

    def test_a_folder(self, tmp_path: Path) -> None:
        told = f"{tmp_path}: is a folder, but a record is a file: "
        assert refusal(tmp_path) == f"{told}the folder has none"
        (tmp_path / "float64").mkdir()
        (inside := tmp_path / "float64" / "jax.jsonl").write_text(STEP_0)
        assert refusal(tmp_path) == f"{told}{inside}"

    @pytest.mark.parametrize("lines", [[], ["", ""], [RUN], [RUN, END], [RUN, EVALUATION_0]])
    def test_no_step(self, lines: list[str], path: Path) -> None:
        path.write_text("\n".join(lines), encoding="utf-8")
        assert refusal(path).startswith(f"{path}: has no steps")
