"""What `port.optax_source` prints is what `port.to_optax` builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

import port
from models.recorded import Recorded, flax_steps
from port.errors import UsageError
from port.mapping import save_mapping
from port.pairs.optimizers import OPTIMIZERS

CLASSES = {name.lower(): getattr(torch.optim, name) for name in torch.optim.__all__}


def groups_of_two(module: torch.nn.Module) -> torch.optim.Optimizer:
    weights, biases = ([p for p in module.parameters() if (p.ndim > 1) == matrix] for matrix in (True, False))
    return torch.optim.AdamW([{"params": weights}, {"params": biases, "weight_decay": 0.0}], lr=1e-3)


MADE: dict[str, Callable[[torch.nn.Module], torch.optim.Optimizer]] = {
    pair.name: (lambda module, name=pair.name: CLASSES[name](module.parameters()))  # type: ignore[misc]
    for pair in OPTIMIZERS
    if pair.name not in ("muon", "sparseadam", "lbfgs")
}
MADE["groups"] = groups_of_two
SCHEDULED: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "constant": lambda optimizer: None,
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=30, cycle_momentum=False),
}
SHORT = {("sgd", "one cycle"), ("adafactor", "constant"), ("groups", "constant")}


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        pytest.param(name, schedule, marks=() if (name, schedule) in SHORT else pytest.mark.sweep)
        for name in MADE
        for schedule in SCHEDULED
    ],
)
def test_run_it_is_the_transformation(
    name: str, schedule: str, recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_mapping(recorded.mapping, "mapping.toml")
    optimizer = MADE[name](recorded.fresh())
    given: dict[str, Any] = {
        "scheduler": SCHEDULED[schedule](optimizer),
        "params": recorded.params,
        "mapping": recorded.mapping,
        "clip_norm": 0.5,
    }
    transformation, state = port.to_optax(optimizer, **given)
    namespace: dict[str, Any] = {}
    exec(port.optax_source(optimizer, **given), namespace)
    written = namespace["optimizer"]
    ours, theirs = flax_steps(transformation), flax_steps(written)
    params, others, other = recorded.params, recorded.params, written.init(recorded.params)
    for gradients in recorded.gradients[:3]:
        params, state = ours(recorded.to_flax(gradients), state, params)
        others, other = theirs(recorded.to_flax(gradients), other, others)
    jax.tree.map(np.testing.assert_array_equal, params, others)


def test_it_reads_as_a_person_writes() -> None:
    layer = torch.nn.Linear(3, 4)
    assert port.optax_source(torch.optim.AdamW(layer.parameters(), lr=3e-4)) == (
        "import optax\n\noptimizer = optax.adamw(0.0003, weight_decay=0.01)\n"
    )
    momentum = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    assert port.optax_source(momentum, clip_norm=1.0) == (
        "import optax\n\nfrom port import transforms\n\noptimizer = optax.chain("
        "transforms.clip_by_torch_norm(1.0), optax.add_decayed_weights(0.0005), optax.sgd(0.1, momentum=0.9))\n"
    )


def test_groups_without_names_are_refused() -> None:
    module = torch.nn.Linear(3, 4)
    with pytest.raises(UsageError, match=r"2 groups.*mapping="):
        port.optax_source(groups_of_two(module))
