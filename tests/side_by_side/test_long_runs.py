"""The long runs: 500 steps of every combination, seeds that calibrated nothing, real MNIST. `pytest -m sweep`.

What is measured is printed (`-s` shows it) as well as asserted.
"""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from port.records import Status
from side_by_side.config import Config

pytestmark = pytest.mark.sweep

MODELS = ("mlp", "convnet")
OPTIMIZERS = ("sgd", "adam", "adamw")
# Seeds 0–19 chose the limits. All of 20–39 take an hour: PORT_SWEEP_SEEDS=20-39.
FIRST, _, LAST = os.environ.get("PORT_SWEEP_SEEDS", "20-21").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)
DATA = Path(os.environ.get("PORT_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_float64_over_500_steps(model, optimizer, train_both):
    outcome = train_both(Config(model=model, optimizer=optimizer, steps=500))
    print(f"\n{model} {optimizer}: {outcome.verdict.sentence} weights: {outcome.weights}")
    assert outcome.verdict.status is Status.AGREE


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_float32_raises_no_false_alarm(model, optimizer, seed, train_both):
    outcome = train_both(Config(model=model, optimizer=optimizer, seed=seed, steps=500), "float32", controls=3)
    print(f"\n{model} {optimizer} seed {seed}: {outcome.verdict.sentence}")
    assert outcome.verdict.status is Status.AGREE


@pytest.fixture(scope="session")
def mnist(tmp_path_factory) -> Path:
    """torchvision's root of the real MNIST, unpacked into a folder of ours."""
    packed = DATA / "mnist" / "MNIST" / "raw"
    if not packed.is_dir():
        pytest.skip(f"the real MNIST is not under {DATA} (PORT_TEST_DATA names another place)")
    root = tmp_path_factory.mktemp("mnist")
    (root / "MNIST" / "raw").mkdir(parents=True)
    for file in packed.glob("*.gz"):
        with gzip.open(file) as source, (root / "MNIST" / "raw" / file.stem).open("wb") as target:
            shutil.copyfileobj(source, target)
    return root


def test_mnist_convnet_two_epochs(mnist, train_both):
    config = Config(model="convnet", dataset="mnist", data_root=mnist, optimizer="adam", batch_size=64, epochs=2)
    outcome = train_both(config, "float32", controls=3)
    for record in (outcome.torch, outcome.jax):
        assert len(record.steps) == 2 * 937  # the last partial batch is dropped
        assert next(reversed(record.evaluations.values())).more["accuracy"] > 0.95
    print(f"\n{outcome.verdict.sentence}")
    assert outcome.verdict.status is Status.AGREE


def test_mnist_convnet_is_the_same_in_float64(mnist, train_both):
    config = Config(model="convnet", dataset="mnist", data_root=mnist, optimizer="adam", batch_size=64, steps=100)
    outcome = train_both(config)
    print(f"\n{outcome.verdict.sentence} weights: {outcome.weights}")
    assert outcome.verdict.status is Status.AGREE
