"""Running both trainers in this process, and judging what they record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from port.training import Outcome, judge
from side_by_side.config import Config

TrainBoth = Callable[..., Outcome]


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
