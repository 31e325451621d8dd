"""Loops over steps in the styles people write, as original.py has them; and such as are refused with the line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from port.scripts import Script
from port.scripts.imported_file import import_file
from port.scripts.writing_process import WrittenUpdate, write_script

BEGIN = """\
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
points, target = torch.randn(50, 3), torch.randn(50, 1)
model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
NESTED = f"""{BEGIN}
for epoch in range(4):
    order = torch.randperm(40)
    for begin in range(0, 40, 8):
        chosen = order[begin : begin + 8]
        loss = F.mse_loss(model(points[chosen]), target[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(epoch, F.mse_loss(model(points[40:]), target[40:]).item())
"""
ACCUMULATED = f"""{BEGIN}
for it in range(40):
    i = torch.randint(0, 50, (4,))
    loss = F.mse_loss(model(points[i]), target[i]) / 2
    loss.backward()
    if (it + 1) % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def written(source: str, make: Callable[[str], Script], folder: Path) -> tuple[WrittenUpdate, Any]:
    done = write_script(make(source), folder / "train_jax")
    if done.no_trainer:
        return done, None
    module = import_file(folder / "train_jax" / "original.py", "written_steps")
    sys.modules.pop("written_steps", None)
    return done, module.data(module.options().parse_args([]))


@pytest.mark.sweep
def test_an_order_that_each_epoch_draws(script: Callable[[str], Script], tmp_path: Path) -> None:
    done, found = written(NESTED, script, tmp_path)
    assert found is not None, done.no_trainer
    loaders, plan = found
    assert [*plan] == (["update"] * 5 + ["evaluation"]) * 4
    torch.manual_seed(4)
    orders = [torch.randperm(40) for _ in range(2)]
    torch.manual_seed(0)
    values = torch.randn(50, 3)  # the data, as the script draws it
    torch.manual_seed(4)
    batches = [*islice(loaders["training"], 10)]
    assert torch.equal(batches[9][0], values[orders[1][32:]]) and not torch.equal(batches[9][0], batches[4][0])
    assert [len(x) for x, _ in loaders["evaluation"]] == [10]


@pytest.mark.sweep
def test_updates_that_are_made_in_every_other_step(script: Callable[[str], Script], tmp_path: Path) -> None:
    done, found = written(ACCUMULATED, script, tmp_path)
    assert found is not None, done.no_trainer
    loaders, plan = found
    assert [*plan] == ["update"] * 20 and len([*loaders["training"]]) == 40


@pytest.mark.sweep
def test_a_number_that_is_made_behind_the_models_call(script: Callable[[str], Script], tmp_path: Path) -> None:
    source = ACCUMULATED.replace(
        "    loss = F.mse_loss(model(points[i]), target[i]) / 2\n",
        "    out = model(points[i])\n    weight = it / 10\n    loss = weight * F.mse_loss(out, target[i]) / 2\n",
    )
    done, found = written(source, script, tmp_path)
    assert found is not None, done.no_trainer
    assert [weight for *_, weight in found[0]["training"]] == [it / 10 for it in range(40)]


IN_FUNCTION = ACCUMULATED.replace("for it in", "def train():\n  for it in").replace("\n    ", "\n      ")
HELPER = "def loss_of(x, y):\n    return F.mse_loss(model(x), y)\n\n"
REFUSED = {
    "a function that is called in a loop": (
        f"{IN_FUNCTION}for _ in range(2):\n    train()\n",
        "is in a function that is called in a loop",
    ),
    "an end that depends on the loss": (
        f"{ACCUMULATED}    if loss < 1e-3:\n        break\n",
        "sets loss, on which the loop's control flow depends",
    ),
    "a model that is called elsewhere": (
        ACCUMULATED.replace("F.mse_loss(model(points[i]), target[i])", "loss_of(points[i], target[i])").replace(
            "for it in", f"{HELPER}for it in"
        ),
        "calls the model outside the loop over the steps",
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize("case", REFUSED)
def test_loops_that_are_refused(case: str, script: Callable[[str], Script], tmp_path: Path) -> None:
    source, words = REFUSED[case]
    done, _ = written(source, script, tmp_path)
    assert words in done.no_trainer, done
    assert not (tmp_path / "train_jax" / "train.py").exists()
