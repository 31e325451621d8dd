"""Rates that a script sets by hand around the batches of a DataLoader, as its written trainer has them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from port.scripts import Script
from port.scripts.imported_file import import_file
from port.scripts.writing_process import write_script

SCRIPT = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()

def adjust_learning_rate(optimizer, epoch, args):
    lr = args.lr * (0.1 ** (epoch // 2))
    for group in optimizer.param_groups:
        group["lr"] = lr

torch.manual_seed(0)
points = torch.randn(24, 5)
loader = DataLoader(TensorDataset(points, points.sum(1, keepdim=True)), batch_size=6)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
for epoch in range(4):
    adjust_learning_rate(optimizer, epoch, args)
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
"""
EACH = SCRIPT.replace("    adjust_learning_rate(optimizer, epoch, args)\n", "").replace(
    "        optimizer.step()",
    "        optimizer.step()\n        for group in optimizer.param_groups:\n            group['lr'] *= 0.5",
)
EVERY_OTHER = SCRIPT.replace(
    "    adjust_learning_rate(optimizer, epoch, args)\n    for x, y in loader:\n        optimizer.zero_grad()\n",
    "    for number, (x, y) in enumerate(loader):\n",
).replace(
    "        optimizer.step()",
    "        if (number + 1) % 2 == 0:\n            adjust_learning_rate(optimizer, 2 * epoch + number - 1, args)\n"
    "            optimizer.step()\n            optimizer.zero_grad()",
)


def loaded(folder: Path) -> Any:
    module = import_file(folder / "original.py", "written_numbers")
    sys.modules.pop("written_numbers", None)
    return module


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SCRIPT, [0.2] * 8 + [0.02] * 8),
        (EACH, [0.2 * 0.5**number for number in range(16)]),
        (EVERY_OTHER, [0.2 * 0.1**number for number in (0, 1, 1, 2, 2, 3, 3, 4)]),
    ],
    ids=["in a function, by the epoch", "behind each update", "of two batches"],
)
def test_each_update_has_its_rate(
    source: str, expected: list[float], script: Callable[[str], Script], tmp_path: Path
) -> None:
    done = write_script(script(source), tmp_path / "train_jax")
    assert not done.no_trainer, done.no_trainer
    module = loaded(tmp_path / "train_jax")
    *_, rates = module.data(module.options().parse_args(["--lr", "0.2"]))
    assert [*rates(4)] == pytest.approx(expected)


@pytest.mark.sweep
def test_one_that_each_group_has_is_refused(script: Callable[[str], Script], tmp_path: Path) -> None:
    done = write_script(script(SCRIPT.replace('["lr"] = lr', '["lr"] = lr * group["momentum"]')), tmp_path / "jax")
    assert "the rate depends on group, so it differs between groups" in done.no_trainer, done
