"""`port compare`: exit codes and words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from port import Recorder
from port.cli import main


def write(path: Path, losses: list[float], precision: str) -> str:
    with Recorder(path, precision=precision) as record:
        for step, loss in enumerate(losses):
            record(step, loss=loss)
    return str(path)


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def record(name: str, *, at: int | None = None, factor: float = 1.0, precision: str = "float64") -> str:
        losses = [2.0 / (step + 1) * (factor if step == at else 1.0) for step in range(50)]
        return write(tmp_path / f"{name}.jsonl", losses, precision)

    return record


def test_equal_records_exit_with_0(record, capsys):
    assert main(["compare", record("a"), record("b")]) == 0
    assert "agree" in capsys.readouterr().out


def test_unequal_records_exit_with_1(record, capsys):
    assert main(["compare", record("a"), record("b", at=31, factor=1 + 1e-8)]) == 1
    assert "part at step 31" in capsys.readouterr().out


def test_float32_without_a_control_is_never_called_equal(record, capsys):
    unlike = record("b", at=40, factor=1 + 1e-6, precision="float32")
    assert main(["compare", record("a", precision="float32"), unlike]) == 4
    said = capsys.readouterr().out
    assert "cannot be judged beyond" in said


def test_a_float32_record_beside_itself_agrees(record, capsys):
    a = record("a", precision="float32")
    assert main(["compare", a, a]) == 0
    assert "the same losses to the last bit" in capsys.readouterr().out


def test_controls_decide(record, capsys):
    a, b = record("a", precision="float32"), record("b", at=40, factor=1.001, precision="float32")
    near, far = record("c", precision="float32"), record("d", at=20, factor=1.002, precision="float32")
    assert main(["compare", a, b, "--control", near, "--control", near]) == 1
    assert main(["compare", a, b, "--control", near, far]) == 0


def test_broken_records_exit_with_2(record, tmp_path, capsys):
    (tmp_path / "broken.jsonl").write_text('{"step": 0, "loss": 1.0}\n{"step": 1, "loss": "low"}\n')
    assert main(["compare", record("a"), str(tmp_path / "broken.jsonl")]) == 2
    said = capsys.readouterr().err
    assert "broken.jsonl, line 2" in said
    assert main(["compare", record("b"), "missing.jsonl"]) == 2


def test_the_page_of_two_records(record, tmp_path, capsys):
    a, b = record("a"), record("b", at=31, factor=1 + 1e-8)
    assert main(["compare", a, b, "--control", a, "--html", "both.html"]) == 1
    page = (tmp_path / "both.html").read_text()
    assert "part at step 31" in page
    assert "plotly.js" in page
    assert main(["compare", a, b, "--html", b]) == 2
    assert "ends with .html" in capsys.readouterr().err
    assert main(["compare", a, a]) == 0


def test_the_page_is_among_the_files(record, capsys):
    a = record("a")
    assert main(["compare", a, a, "--json", "--html", "page.html"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["page.html"]
    assert main(["compare", a, a, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == []


def test_a_page_replaces_no_file_that_is_none(record, tmp_path, capsys):
    (tmp_path / "notes.html").write_text("mine")
    assert main(["compare", "nowhere.jsonl", "nowhere.jsonl", "--html", "notes.html"]) == 2
    assert "notes.html is there already, and is no page that port wrote" in capsys.readouterr().err
    assert main(["report", "nowhere", "-o", "notes.html"]) == 2
    assert "notes.html is there already, and is no page that port wrote" in capsys.readouterr().err
    assert (tmp_path / "notes.html").read_text() == "mine"
