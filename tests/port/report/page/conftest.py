"""Runs for the page: records as a trainer leaves them, and the outcomes over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from port.records import Recorder
from port.training import Outcome, judge

MakeOutcome = Callable[..., Outcome]


def record(path: Path, side: str, losses: list[float], **about: Any) -> Path:
    """A record with these losses, gradient norms, a learning rate, and an evaluation every tenth step."""
    with Recorder(path, overwrite=True, side=side, **{"precision": "float64", "device": "cpu", **about}) as recorder:
        for step, loss in enumerate(losses):
            recorder(step, loss=loss, epoch=step // 10, lr=0.05, grad_norm=loss / 3)
            if step % 10 == 9:
                recorder.evaluation(step, loss=loss * 1.25, accuracy=1 - abs(loss) / 4, duration=0.01)
    return path


def falling(steps: int, parted: int | None = None) -> list[float]:
    """Losses that fall; from ``parted`` on they are others."""
    losses = [2.3 * math.exp(-step / max(steps / 3, 1)) + 0.1 for step in range(steps)]
    return [loss * 1.01 if parted is not None and step >= parted else loss for step, loss in enumerate(losses)]


@pytest.fixture
def make_outcome(tmp_path: Path) -> MakeOutcome:
    """(losses of torch, of jax, of controls, facts of each record's first line) → the outcome."""

    def make(
        torch: list[float], jax: list[float], *controls: list[float], name: str = "float64", **about: Any
    ) -> Outcome:
        folder = tmp_path / name
        about = {"precision": "float64" if name == "scripts" else name, **about}
        return judge(
            name,
            record(folder / "torch.jsonl", "torch", torch, **about),
            record(folder / "jax.jsonl", "jax", jax, **about),
            [record(folder / f"c{n}.jsonl", f"c{n}", losses, **about) for n, losses in enumerate(controls)],
        )

    return make
