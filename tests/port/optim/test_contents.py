"""A state shows, from the first, the rates that torch has."""

from __future__ import annotations

from typing import Any

import jax
import pytest
import torch
from optax import InjectStatefulHyperparamsState
from torch.optim import lr_scheduler

import port
from models.recorded import Recorded, torch_step


def shown(state: Any) -> list[dict[str, float]]:
    is_injected = lambda part: isinstance(part, InjectStatefulHyperparamsState)  # noqa: E731
    parts = filter(is_injected, jax.tree.leaves(state, is_leaf=is_injected))
    return [{name: float(value) for name, value in part.hyperparams.items()} for part in parts]


@pytest.mark.parametrize("start", [0, 7])
def test_the_rates_are_torchs(start: int, recorded: Recorded) -> None:
    module = recorded.fresh()
    weights, biases = ([p for p in module.parameters() if (p.ndim > 1) == matrix] for matrix in (True, False))
    optimizer = torch.optim.Adam([{"params": weights}, {"params": biases}], lr=0.1)
    scheduler = lr_scheduler.OneCycleLR(optimizer, [0.3, 0.1], total_steps=20)
    fresh = [group["lr"] for group in optimizer.param_groups]
    for gradients in recorded.gradients[:start]:
        torch_step(module, optimizer, gradients)
        scheduler.step()
    transformation, state = port.to_optax(
        optimizer, scheduler=scheduler, params=recorded.params, mapping=recorded.mapping, model=module
    )
    theirs = [{"learning_rate": group["lr"], "b1": group["betas"][0]} for group in optimizer.param_groups]
    assert shown(state) == [pytest.approx(group, rel=1e-12) for group in theirs]
    # What init gives are the first rates, which the comparison tells apart.
    assert [one["learning_rate"] for one in shown(transformation.init(recorded.params))] == pytest.approx(fresh)
    assert (start == 0) == (theirs[0]["learning_rate"] == pytest.approx(fresh[0]))
