"""A learning rate that an option gives is an argument; a number that only depends on it is not taken for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import port
from port.scripts import Observation
from port.scripts.writing.free_rate import FreeRate, free_rate

SCRIPT = """
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, weight_decay=0.1)
{more}
"""


def found(folder: Path, schedule: Any = None, more: str = "", given: float = 0.1) -> FreeRate | None:
    file = folder / "train.py"
    file.write_text(SCRIPT.format(more=more))
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1, weight_decay=0.1)
    schedulers = [schedule(optimizer)] if schedule is not None else []
    seen = Observation({}, options=[{"name": "lr", "given": given}])
    event = {"constructed": {"where": {"file": str(file), "line": 2}}}
    return free_rate(
        seen, event, optimizer, schedulers, lambda: port.optax_source(optimizer, scheduler=schedulers or None)
    )


def test_the_rate_alone_is_named(tmp_path: Path) -> None:
    rate = found(tmp_path)
    assert rate is not None and (rate.option, rate.value) == ("lr", 0.1)
    assert "optax.sgd(lr" in rate.optax and "add_decayed_weights(0.1)" in rate.optax


def test_a_schedule_is_of_the_rate(tmp_path: Path) -> None:
    rate = found(tmp_path, lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5))
    assert rate is not None and "lr" in rate.optax and "0.5" in rate.optax


@pytest.mark.parametrize("more", ["print(args.lr)", "warm = args.lr / 10"])
def test_an_option_that_is_read_elsewhere_keeps_its_value(more: str, tmp_path: Path) -> None:
    assert found(tmp_path, more=more) is None


def test_what_only_depends_on_the_rate_keeps_it(tmp_path: Path) -> None:
    def cosine(optimizer: torch.optim.Optimizer) -> object:
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10, eta_min=0.01)

    rate = found(tmp_path, cosine)
    assert rate is None or "eta_min=0.01" in rate.optax
    assert found(tmp_path, given=0.2) is None
