"""The verdict over a run: records and final weights together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from port.records import Recorder, Status
from port.training import judge
from port.weights import write_arrays


@pytest.fixture
def run(tmp_path):
    """(precision, change of a final weight, change of a loss) → the outcome."""

    def run(precision: str = "float64", weight: float = 0.0, loss: float = 0.0, controls: int = 0):
        generator = np.random.default_rng(0)
        final = {"fc.weight": generator.normal(size=(3, 4)), "norm.running_var": 5 + generator.random(4)}
        paths: dict[str, Path] = {}
        for side in ("torch", "jax", *(f"control-{k}" for k in range(controls))):
            paths[side] = tmp_path / f"{side}.jsonl"
            with Recorder(paths[side], overwrite=True, side=side, precision=precision) as record:
                for step in range(30):
                    record(step, loss=1.0 + (loss if side == "jax" and step == 20 else 0.0))
            changed = dict(final)
            if side == "jax":
                changed["norm.running_var"] = final["norm.running_var"] * (1 + weight)
            write_arrays(paths[side].with_suffix(".safetensors"), changed)
        both = (paths["torch"], paths["jax"])
        weights = tuple(path.with_suffix(".safetensors") for path in both)
        return judge("x", *both, [paths[f"control-{k}"] for k in range(controls)], weights)

    return run


def test_equal_weights_are_part_of_the_proof(run):
    outcome = run(weight=1e-9)
    assert outcome.verdict.status is Status.AGREE
    assert outcome.weights.where == "norm.running_var"


def test_a_running_statistic_that_differs_fails_the_proof(run):
    outcome = run(weight=1e-6)
    assert outcome.verdict.status is Status.DIFFER
    assert "norm.running_var" in outcome.verdict.sentence
    assert outcome.verdict.first.where == "weights"


def test_losses_that_part_come_first(run):
    outcome = run(weight=1e-6, loss=1e-5)
    assert outcome.verdict.first.where == "step"
    assert [finding.where for finding in outcome.verdict.findings] == ["step", "weights"]


def test_in_float32_the_weights_are_told_and_not_judged(run):
    outcome = run("float32", weight=1e-3, controls=3)
    assert outcome.verdict.status is Status.AGREE
    assert outcome.weights.difference > 1e-4


def test_without_weights_the_records_alone_are_judged(run, tmp_path):
    outcome = run()
    paths = outcome.torch.path, outcome.jax.path
    nowhere = tmp_path / "no.safetensors", tmp_path / "weights.safetensors"
    assert judge("x", *paths, final_weights=nowhere).weights is None
