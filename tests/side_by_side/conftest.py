"""Running both trainers, and judging what they record."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from port.training import Outcome, judge
from side_by_side.config import Config

TrainBoth = Callable[..., Outcome]
SECONDS = 300  # that a run of several processes may take: one that hangs is a failure


@pytest.fixture(autouse=True)
def one_thread():
    """Small sums on few cores: more threads only wait for one another."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def train_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainBoth:
    """(config, precision, controls, fault) → the outcome; the fault is planted before the JAX side runs only."""

    def train_both(
        config: Config,
        precision: str = "float64",
        *,
        controls: int = 0,
        fault: Callable[[pytest.MonkeyPatch], object] = lambda monkeypatch: None,
    ) -> Outcome:
        import side_by_side.jax.train
        import side_by_side.pytorch.train

        out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        config = replace(config, out=out)
        side_by_side.pytorch.train.train(config, precision)
        for number in range(1, controls + 1):
            with monkeypatch.context() as patch:
                patch.setenv("PORT_CONTROL", str(number))
                patch.setenv("PORT_RECORD", str(out / precision / f"control-{number}.jsonl"))
                patch.setenv("PORT_FINAL_WEIGHTS", str(out / precision / f"control-{number}.safetensors"))
                side_by_side.pytorch.train.train(config, precision)
        with monkeypatch.context() as patch:
            fault(patch)
            side_by_side.jax.train.train(config, precision)
        return judge(
            precision,
            out / precision / "torch.jsonl",
            out / precision / "jax.jsonl",
            [out / precision / f"control-{number}.jsonl" for number in range(1, controls + 1)],
            (out / precision / "torch.safetensors", out / precision / "jax.safetensors"),
        )

    return train_both


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs with replicas; a module's tests share them by name."""
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def both(runs: Runs) -> Callable[..., Outcome]:
    """(PyTorch's config, JAX's) → the outcome; a run that was made before in this module is not made again."""

    def both(torch: Config, jax: Config, *, as_jax: str = "") -> Outcome:
        # What only JAX knows apart must not make another run of PyTorch's: its replicas are ranks.
        form = "fsdp" if torch.parallel == "fsdp" else "pmap"
        as_ranks = replace(torch, devices=torch.replicas, processes=1, parallel=form, batch_norm=torch.statistics)
        names = [name_of_run("torch", as_ranks), as_jax or name_of_run("jax", jax)]
        for run, name, config in zip((runs.torch, runs.jax), names, (as_ranks, jax), strict=True):
            if not (runs.folder / name).exists():
                run(name, config)
        return runs.compare(*names)

    return both


def name_of_run(side: str, config: Config) -> str:
    return f"{side} {hashlib.sha256(' '.join(config.flags()).encode()).hexdigest()[:16]}"


class Runs:
    """Runs of both trainers, each in a folder of its own, from the same initial weights."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def torch(self, name: str, config: Config) -> None:
        """One device in this process; several as torchrun's ranks."""
        config = self._begun(name, config)
        if config.replicas == 1:
            import side_by_side.pytorch.train

            side_by_side.pytorch.train.train(config, "float64")
            return
        torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(config.replicas), "-m")
        run_module(*torchrun, "side_by_side.pytorch.train", *config.flags())

    def jax(self, name: str, config: Config) -> None:
        """One process in this one, which has four virtual devices; several by our launcher."""
        config = self._begun(name, config)
        if config.processes == 1:
            import side_by_side.jax.train

            side_by_side.jax.train.train(config, "float64")
            return
        launcher = ("port.training.launch", "--processes", str(config.processes), "--", sys.executable, "-P", "-m")
        run_module(*launcher, "side_by_side.jax.train", *config.flags())

    def compare(self, torch: str, jax: str) -> Outcome:
        """The verdict over two runs."""
        first = self.folder / torch / "float64" / "torch.jsonl"
        second = self.folder / jax / "float64" / "jax.jsonl"
        weights = first.with_suffix(".safetensors"), second.with_suffix(".safetensors")
        return judge("float64", first, second, [], weights)

    def _begun(self, name: str, config: Config) -> Config:
        """The config of a run in its own folder, with the initial weights of the first one of its model."""
        folder = self.folder / name
        folder.mkdir()
        weights = self.folder / f"{config.model}.safetensors"
        if not weights.exists():
            import side_by_side.pytorch.model
            from port.weights import save

            save(side_by_side.pytorch.model.build(config), weights)
        shutil.copy(weights, folder / "initial.safetensors")
        return replace(config, out=folder, precision="float64")


def run_module(*arguments: str) -> None:
    """``python -m …``, which has to end well, and in time."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "PYTHONSAFEPATH": "1"}
    command = (sys.executable, "-P", "-m", *arguments)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        pytest.fail(f"exit {done.returncode}: {' '.join(arguments[:6])}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
