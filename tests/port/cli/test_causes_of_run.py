"""Records of a run whose models are at hand: `port compare` tells why they differ; of any other it says no more."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import pytest
import torch

import side_by_side.jax.model as jax_model
from port import Recorder
from port.cli import causes_of_run, main
from side_by_side.config import Config
from side_by_side.pytorch.model import build

CONFIG = Config(model="mlp", steps=8)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder whose two records part at step 5."""
    return written(tmp_path / "run")


def written(folder: Path, config: Config = CONFIG, begun: float = 1.0) -> Path:
    """A run's folder; its initial weights are multiplied by ``begun``."""
    (folder / "float64").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**asdict(config), "resume": False}, default=str))
    model = build(CONFIG)
    with torch.no_grad():
        model.fc1.weight.mul_(begun)
    save_initial(model, folder / "initial.safetensors")
    for side, factor in (("torch", 1.0), ("jax", 1.001)):
        with Recorder(folder / "float64" / f"{side}.jsonl", precision="float64", side=side) as record:
            for step in range(8):
                record(step, loss=2.0 / (step + 1) * (factor if step >= 5 else 1.0))
    return folder


def save_initial(model: torch.nn.Module, path: Path) -> None:
    from safetensors.torch import save_file

    save_file(model.state_dict(), path)


def compared(run: Path, capsys: Any, other: Path | None = None, jax: str = "jax") -> dict[str, Any]:
    """The result of comparing a run's record of torch with a record of it, or of another run."""
    sides = [str(run / "float64" / "torch.jsonl"), str((other or run) / "float64" / f"{jax}.jsonl")]
    assert main(["compare", *sides, "--json"]) == 1
    return json.loads(capsys.readouterr().out)


def plant(monkeypatch: pytest.MonkeyPatch) -> None:
    """tanh for ReLU in the Flax model."""

    def call(self: Any, images: jax.Array, masks: Any, real: Any = None) -> jax.Array:
        x = jax_model.scaled(images, self.fc1.kernel.dtype).transpose(0, 3, 1, 2).reshape(len(images), -1)
        return self.fc3(jax.nn.relu(self.fc2(jax.numpy.tanh(self.fc1(x)))))

    monkeypatch.setattr(jax_model.MLP, "__call__", call)


@pytest.mark.sweep
def test_the_cause_is_told_of_the_runs_own_models(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    plant(monkeypatch)
    found = compared(run, capsys)
    assert [cause["kind"] for cause in found["causes"]] == ["another-activation"]
    assert "torch and jax differ from step 5: another activation at" in found["sentence"]
    assert "alone differ" in found["remarks"][0]


def test_no_model_is_imported_that_is_not_at_hand(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    plant(monkeypatch)
    # A model that is named and lies elsewhere: its file would say by failing that it was.
    elsewhere = run.parent / "theirs.py"
    elsewhere.write_text("raise SystemExit('imported')")
    config = {**asdict(CONFIG), "torch_model": f"{elsewhere}:Net", "jax_model": f"{elsewhere}:Net"}
    (run / "config.json").write_text(json.dumps(config, default=str))
    found = compared(run, capsys)
    assert (found["causes"], found["sentence"].startswith("torch and jax differ: ")) == ([], True)
    (run / "config.json").unlink()
    assert compared(run, capsys) == found


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'torch'"), ZeroDivisionError("by zero")])
def test_the_verdict_is_there_whatever_fails(
    error: Exception, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def fails(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(causes_of_run, "_checked", fails)
    found = compared(run, capsys)
    assert (found["status"], found["causes"]) == ("differ", [])


@pytest.mark.sweep
def test_nothing_is_said_of_models_that_agree(run: Path, capsys: Any) -> None:
    found = compared(run, capsys)
    assert (found["causes"], found["sentence"].startswith("torch and jax differ: ")) == ([], True)


@pytest.mark.sweep
def test_records_of_two_runs_tell_the_cause_too(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    plant(monkeypatch)
    other = written(run.parent / "other")
    found = compared(run, capsys, other)
    assert [cause["kind"] for cause in found["causes"]] == ["another-activation"]
    assert "torch and jax differ from step 5: another activation at" in found["sentence"]


def test_of_two_runs_other_options_and_weights_are_told(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(causes_of_run, "_checked_hints", lambda *_: (["nothing"], ()))
    other = written(run.parent / "other", replace(CONFIG, lr=0.3, optimizer="adam", out=Path("elsewhere")), begun=1.5)
    found = compared(run, capsys, other)
    options, weights, *_ = found["remarks"]
    assert options == "the two runs have different options: optimizer (sgd and adam), lr (the default and 0.3)"
    assert weights.startswith("the two runs begin with different weights: fc1.weight differs by ")
    same = written(run.parent / "same", replace(CONFIG, time_limit=7.0))
    assert not any("the two runs" in remark for remark in compared(run, capsys, same)["remarks"])


def test_records_of_one_side_are_not_checked_against_each_other(run: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(causes_of_run, "_checked", lambda *_: 1 / 0)
    other = written(run.parent / "other", replace(CONFIG, seed=4))
    path = other / "float64" / "torch.jsonl"
    path.write_text((other / "float64" / "jax.jsonl").read_text().replace('"side": "jax"', '"side": "torch"'))
    found = compared(run, capsys, other, jax="torch")
    assert found["remarks"][0] == "the two runs have different options: seed (0 and 4)"
    assert not any("cannot be checked" in remark for remark in found["remarks"])


@pytest.mark.sweep
def test_models_of_other_kinds_are_told_as_an_option(run: Path, capsys: Any) -> None:
    other = written(run.parent / "other", replace(CONFIG, model="convnet"))
    found = compared(run, capsys, other)
    assert found["remarks"][0].startswith("the two runs have different options: model (mlp and convnet)")
    assert any("alone cannot be checked" in remark for remark in found["remarks"])
