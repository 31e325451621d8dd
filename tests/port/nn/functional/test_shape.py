"""Unflatten against torch's; flatten is jax.lax.collapse."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import port.nn.functional as ours
from port.errors import UsageError


@pytest.mark.parametrize(("dim", "sizes"), [(1, (2, 3)), (-2, (3, -1)), (0, (4,)), (2, (1, 5, 1)), (-3, (2, 2))])
def test_one_axis_becomes_several(dim: int, sizes: tuple[int, ...], against_torch: Any) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6, 5))
    theirs = partial(torch.unflatten, dim=dim, sizes=sizes)
    assert max(against_torch(theirs, partial(ours.unflatten, dim=dim, unflattened_size=sizes), x).values()) == 0


def test_another_order_is_seen(against_torch: Any) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6, 5))

    def fault(x: jax.Array) -> jax.Array:
        return ours.unflatten(x, 1, (3, 2)).swapaxes(1, 2)

    assert min(against_torch(partial(torch.unflatten, dim=1, sizes=(2, 3)), fault, x).values()) > 1e-2


@pytest.mark.parametrize("sizes", [(2, 2), (-1, 4), (-1, -1)])
def test_sizes_of_another_number_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="their product differs"):
        ours.unflatten(jnp.ones((4, 6, 5)), 1, sizes)
