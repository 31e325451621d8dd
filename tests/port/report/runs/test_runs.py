"""Several runs on one page: what is read of their folders, the tables, the page in a browser, and what is refused."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from safetensors.numpy import save_file

from browser import Browser
from port.cli import main
from port.judging import Status
from port.records import Recorder
from port.report.results import schema
from port.report.runs.page import NUMBERS, write_runs_page
from port.report.runs.run_folder import read_run_folders
from port.report.runs.table import table_of_options, table_of_runs

MARKUP = "<img src=x onerror=alert(1)>"


def run(folder: Path, *, steps: int = 12, parted: int | None = None, weights: float = 3e-15, **options: Any) -> Path:
    """A run's folder, whose sides differ from a step on if it says so, and in a final weight by as much as it says."""
    folder_of_proof = folder / "float64"
    losses = [2 * math.exp(-step / 5) + 0.25 for step in range(steps)]
    for side in ("torch", "jax"):
        with Recorder(folder_of_proof / f"{side}.jsonl", side=side, precision="float64") as recorder:
            for step, loss in enumerate(losses):
                differs = side == "jax" and parted is not None and step >= parted
                recorder(step, loss=loss * (1.5 if differs else 1 + 1e-14))
        save_file(
            {"fc.weight": np.array([1.0, -1.0 - weights * (side == "jax")])}, folder_of_proof / f"{side}.safetensors"
        )
    (folder / "config.json").write_text(json.dumps({"model": "mlp", "out": str(folder), **options}))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    run(tmp_path / "runs" / "adam", optimizer="adam", lr=0.5)
    run(tmp_path / "runs" / "sgd", optimizer="sgd", lr=0.5, steps=9, parted=4)
    return tmp_path / "runs"


def test_a_folder_of_runs_stands_for_all_of_them(runs: Path) -> None:
    (runs / "notes").mkdir()
    found = read_run_folders([runs])
    assert [(one.name, one.status) for one in found] == [("adam", Status.AGREE), ("sgd", Status.DIFFER)]
    assert read_run_folders([runs / "sgd", runs, runs / "sgd"])[0].name == "sgd"
    assert len(read_run_folders([runs / "sgd", runs])) == 2


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [run(tmp_path / name / "run") for name in ("monday", "tuesday")]
    assert [one.name for one in read_run_folders(folders)] == ["monday/run", "tuesday/run"]


def test_the_table_marks_what_does_not_agree(runs: Path) -> None:
    table = table_of_runs(read_run_folders([runs]))
    adam, sgd = table.rows
    assert adam[:4] == ["adam", "float64", "agree", "12"] and sgd[:4] == ["sgd", "float64", "differ", "9"]
    assert adam[5].endswith("e-15 (fc.weight)") and sgd[4].startswith("3.33e-01 at step")
    assert table.marked == {1}


def test_final_weights_that_differ_alone_are_a_difference(tmp_path: Path) -> None:
    found = read_run_folders([run(tmp_path / "apart", weights=1e-5)])
    assert found[0].status is Status.DIFFER
    assert "final weights differ most in fc.weight" in found[0].comparisons[0].verdict.sentence
    assert table_of_runs(found).marked == {0}


def test_of_a_run_that_was_killed_the_steps_that_are_there(tmp_path: Path) -> None:
    file = run(tmp_path / "killed") / "float64" / "jax.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-2]) + lines[-2][:9])
    (found,) = read_run_folders([tmp_path / "killed"])
    assert len(found.comparisons[0].jax.steps) == 11 and found.comparisons[0].weights is None


def test_the_options_in_which_they_differ(runs: Path) -> None:
    found = read_run_folders([runs])
    assert table_of_options(found, differ=True).rows == [["optimizer", "adam", "sgd"]]
    assert table_of_options(found, differ=False).rows == [["model", "mlp"], ["lr", "0.5"]]


def figures(page: Path) -> list[dict[str, Any]]:
    found = re.search(r'id="figures">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found is not None
    told: list[dict[str, Any]] = json.loads(found[1])
    return told


@pytest.mark.sweep
def test_a_long_run_is_thinned_and_keeps_its_extremes(tmp_path: Path) -> None:
    folder = run(tmp_path / "long", steps=30_000, parted=17_171)
    write_runs_page(read_run_folders([folder]), tmp_path / "page.html")
    (drawn,) = figures(tmp_path / "page.html")[0]["runs"]
    assert len(drawn["steps"]) * 4 <= NUMBERS
    assert drawn["steps"][0] == 0 and drawn["steps"][-1] == 29_999
    assert max(drawn["differences"]) == pytest.approx(1 / 3) and min(drawn["differences"]) < 1e-13


@pytest.mark.sweep
def test_the_page_in_a_browser(runs: Path, tmp_path: Path, chromium: Any) -> None:
    run(tmp_path / "runs" / MARKUP.replace("/", ""), model=MARKUP)
    write_runs_page(read_run_folders([runs]), tmp_path / "page.html")
    with Browser(chromium) as browser:
        window = browser.open(tmp_path / "page.html", viewport={"width": 375, "height": 700}, color_scheme="dark")
        window.wait_for_selector("html[data-drawn]")
        assert window.evaluate("document.documentElement.scrollWidth") == 375
        assert window.locator("h1").text_content() == "3 runs: 2 agree, 1 differ."
        assert window.locator("img[src=x]").count() == 0
        lines = window.locator("#figure-0 .scatterlayer .trace")
        assert lines.count() == 9
        # With the keyboard alone: leave a run out, then go to the step before the last.
        window.locator("[data-keys] button", has_text="sgd").focus()
        window.keyboard.press("Space")
        assert window.locator("[data-keys] button", has_text="sgd").get_attribute("aria-pressed") == "false"
        assert lines.count() == 6
        window.locator("[data-reading] input").focus()
        window.keyboard.press("ArrowLeft")
        said = window.locator("[data-reading] output").text_content()
        assert "step 10" in said and "adam" in said and "sgd" not in said
        window.locator("#theme").focus()
        window.keyboard.press("Enter")
        assert window.evaluate("document.documentElement.dataset.theme") == "light"


def test_the_command(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "all.html"
    assert main(["report", str(runs), "-o", str(page), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, schema())
    assert found["status"] == "differ" and found["files"] == [str(page)] and page.is_file()
    assert any(row["what"].startswith("sgd, float64, ") for row in found["rows"])
    assert main(["report", str(runs / "adam")]) == 0
    assert "agree" in capsys.readouterr().out


BAD = {
    "no run": ([], "name the runs"),
    "no folder": (["nowhere"], "nowhere is not a folder"),
    "a folder without runs": (["."], "is not a run's folder and contains none"),
    "no page": (["runs", "-o", "page.txt"], "ends with .html"),
    "nothing to open": (["runs", "--open"], "add -o report.html"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(
    name: str, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty" if name == "a folder without runs" else tmp_path)
    arguments, said = BAD[name]
    assert main(["report", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not Path("page.txt").exists()


def test_a_broken_record_names_its_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = runs / "sgd" / "float64" / "jax.jsonl"
    file.write_text(file.read_text().replace('"step": 2', '"step": "two"'))
    assert main(["report", str(runs)]) == 2
    assert re.search(r"jax\.jsonl, line \d+", capsys.readouterr().err)
