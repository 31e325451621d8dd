"""A schedule's values beside a torch scheduler's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

Rates = Callable[..., np.ndarray]


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture
def torch_rates() -> Rates:
    """(make(optimizer), steps) → the rates, or with ``key`` the momenta, of a scheduler that torch steps."""

    def stepped(make: Callable[[Any], Any], steps: int, base: float = 0.3, key: str = "lr") -> np.ndarray:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=base, momentum=0.5)
        scheduler = make(optimizer)
        optimizer.step()
        values = [optimizer.param_groups[0][key]]
        for _ in range(steps - 1):
            scheduler.step()
            values.append(optimizer.param_groups[0][key])
        return np.array(values)

    return stepped


@pytest.fixture
def rates() -> Rates:
    """(schedule, steps) → its values under jit, in the type that it has."""

    def taken(schedule: Callable[[Any], Any], steps: int) -> np.ndarray:
        return np.asarray(jax.jit(jax.vmap(schedule))(jnp.arange(steps, dtype=jnp.int32)))

    return taken


@pytest.fixture
def off() -> Callable[[np.ndarray, np.ndarray], float]:
    """The largest difference, relative to the largest rate."""
    return lambda got, want: float(np.abs(got - want).max() / np.abs(want).max())
