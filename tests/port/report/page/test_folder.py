"""The page in a run's folder, also for a run that stopped early."""

from __future__ import annotations

import json

import pytest

from port.errors import TrainerDied
from port.report import write_page_of_folder, write_page_of_remains
from port.training import Outcome, Pairing, Remains, Trainer, remains

from .conftest import falling, record

PAIRING = Pairing("float64", Trainer(()), Trainer(()))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model": "a model of mine"}))
    (tmp_path / "environment.json").write_text('{"python": "3.')  # torn
    record(tmp_path / "float64" / "torch.jsonl", "torch", falling(30))
    return tmp_path


def torn(path, losses):
    """A record as a trainer that is killed leaves it: no end, its last line cut off."""
    record(path, "jax", losses)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2]) + lines[-2][:20])


def test_the_page_lies_beside_what_it_is_made_of(folder, make_outcome):
    page = write_page_of_folder([make_outcome(falling(30), falling(30))], folder)
    assert page == folder / "run.html"
    assert "a model of mine" in page.read_text()
    assert "are the same run." in page.read_text()


def test_of_a_torn_record_the_whole_lines_are_shown_and_judged(folder):
    torn(folder / "float64" / "jax.jsonl", falling(30)[:18])
    (left,) = remains([PAIRING], folder)
    assert isinstance(left, Remains)
    assert list(left.jax.steps) == list(range(17))
    assert left.verdict.steps.steps == list(range(17))
    assert str(left.verdict.status) == "agree"
    page = write_page_of_remains([PAIRING], folder, TrainerDied("out of paper")).read_text()
    assert "The run stopped early: jax&#39;s record breaks off after step 16." in page
    assert "of the steps that both have" in page
    assert "out of paper" in page


def test_one_side_alone_is_shown(folder):
    (left,) = remains([PAIRING], folder)
    assert (left.jax, left.verdict) == (None, None)
    page = write_page_of_remains([PAIRING], folder, KeyboardInterrupt())
    assert "there is no record of jax" in page.read_text()


def test_of_a_comparison_that_came_to_its_end_all_is_kept(folder):
    record(folder / "float64" / "jax.jsonl", "jax", falling(30))
    (left,) = remains([PAIRING], folder)
    assert isinstance(left, Outcome)


def test_the_page_never_stands_in_the_errors_place(folder):
    assert write_page_of_remains([PAIRING], folder / "nowhere", TrainerDied("x")) is None
    (folder / "run.html").mkdir()
    (folder / "run.html" / "mine.txt").touch()
    assert write_page_of_remains([PAIRING], folder, TrainerDied("x")) is None
