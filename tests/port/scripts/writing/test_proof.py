"""The written update beside PyTorch's: both make the same updates, and a fault planted in the written one is seen."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import port
from port.judging import Status
from port.scripts.writing.proof import TorchUpdates, prove
from port.scripts.writing.step_source import StepFacts, step_source
from port.translation.folder import write_folder


class Loss(nn.Module):
    """A model with running statistics, and a loss that is divided by the number of microbatches."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.net(x), y) / 2


FAULTS = {
    "none": ("", ""),
    "no clipping": ("transforms.clip_by_torch_norm(0.05)", "optax.identity()"),
    "another rate": ("optax.sgd(0.05", "optax.sgd(0.051"),
    "no weight decay": ("optax.add_decayed_weights(0.1)", "optax.identity()"),
    "gradients of the last microbatch alone": ("jax.tree.map(jax.numpy.add, gradients, more)", "more"),
    "statistics of the first weights": ("return (jax.tree.map", "rest = state.rest\n        return (jax.tree.map"),
    "the mean over microbatches": ("losses.sum()", "losses.mean()"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    torch.manual_seed(0)
    module = Loss()
    optimizer = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9, weight_decay=0.1)
    batches = [[{"x": torch.randn(5, 3), "y": torch.randint(0, 2, (5,))} for _ in range(2)] for _ in range(3)]
    translation = port.translate(module, tuple(batches[0][0].values()), name="model", check=False)
    folder = tmp_path_factory.mktemp("written") / "train_jax"
    write_folder(translation, folder, name="model")
    source = port.optax_source(optimizer, clip_norm=0.05)
    text = step_source(StepFacts("train.py", ("x", "y"), 2, source, "SGD", "train.py:3"))
    return module, optimizer, batches, translation, folder, text


@pytest.mark.parametrize("fault", FAULTS)
def test_both_sides_make_the_same_updates(fault: str, written: tuple[Any, ...]) -> None:
    module, optimizer, batches, translation, folder, text = written
    module, optimizer = copy.deepcopy((module, optimizer))
    before, after = FAULTS[fault]
    assert before in text
    (folder / "train_step.py").write_text(text.replace(before, after, 1) if before else text)
    clip = partial(nn.utils.clip_grad_norm_, list(module.parameters()), 0.05)
    side = TorchUpdates(module.double(), optimizer, [], clip)
    double = [[{"x": one["x"].double(), "y": one["y"]} for one in micro] for micro in batches]
    proof = prove(side, double, [], folder, translation)
    assert proof.status is (Status.AGREE if fault == "none" else Status.DIFFER)
    assert len(proof.losses) == 3


def test_what_is_written_stands_alone(written: tuple[Any, ...]) -> None:
    """It is plain Python, formatted or not, that names what it takes."""
    text = written[-1]
    compile(text, "train_step.py", "exec")
    assert "def train_step(graphdef: Any, state: State, x: jax.Array, y: jax.Array)" in text
    assert "donate_argnums=1" in text and "jax.lax.scan" in text
    assert Path(written[4], "model.py").exists()
