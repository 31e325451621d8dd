"""Live torch schedulers, and what an expression of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

Make = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture
def live() -> Callable[..., Any]:
    """(make(optimizer), steps) → a scheduler that has taken them, on an optimizer of two groups."""

    def made(make: Make, steps: int = 0, optimizer: str = "SGD") -> Any:
        groups = [{"params": [torch.nn.Parameter(torch.zeros(2))], "lr": rate} for rate in (0.3, 0.07)]
        options = {"momentum": 0.5} if optimizer == "SGD" else {}
        built = getattr(torch.optim, optimizer)(groups, **options)
        # torch warns of a first step that no update went before, even where it takes it itself, in a nested sequence.
        built._opt_called = True
        scheduler = make(built)
        for _ in range(steps):
            scheduler.step()
        return scheduler

    return made


@pytest.fixture
def run() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """(scheduler, steps) → (steps, groups) of the rates and the momenta, as torch steps it; fewer if it refuses."""

    def stepped(scheduler: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
        groups = scheduler.optimizer.param_groups
        rates, momenta = [], []
        for _ in range(steps):
            rates.append([group["lr"] for group in groups])
            momenta.append([group["betas"][0] if "betas" in group else group["momentum"] for group in groups])
            try:
                scheduler.step()
            except ValueError:
                break
        return np.array(rates), np.array(momenta)

    return stepped


@pytest.fixture
def values() -> Callable[..., np.ndarray]:
    """(expression or number, steps) → its first values."""

    def taken(expression: Any, steps: int) -> np.ndarray:
        if isinstance(expression, float):
            return np.full(steps, expression)
        return np.asarray(jax.jit(jax.vmap(expression.build()))(jnp.arange(steps, dtype=jnp.int32)))

    return taken
