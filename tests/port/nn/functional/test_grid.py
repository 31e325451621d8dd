"""grid_sample against torch's: modes, what lies beyond the ends, corners."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as F

from port.errors import UnknownChoice, UsageError
from port.nn.functional import grid_sample


def worst(against_torch: Any, axes: int, **options: Any) -> float:
    random = np.random.default_rng(0)
    image, grid = random.normal(size=(2, 3, *(5, 4, 6)[:axes])), random.uniform(-1.7, 1.7, (2, *(3, 4, 2)[:axes], axes))

    def ours(image: Any, grid: Any) -> Any:
        return jnp.moveaxis(grid_sample(jnp.moveaxis(image, 1, -1), grid, **options), -1, 1)

    return max(against_torch(partial(F.grid_sample, **options), ours, image, grid).values())


@pytest.mark.thin(24)
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "axes"), [("bilinear", 2), ("bilinear", 3), ("nearest", 2), ("bicubic", 2)])
def test_values_and_gradients(mode: str, axes: int, padding_mode: str, align_corners: bool, against_torch: Any) -> None:
    assert worst(against_torch, axes, mode=mode, padding_mode=padding_mode, align_corners=align_corners) <= 1e-10


def test_x_and_y_the_other_way_round_are_seen(against_torch: Any) -> None:
    random = np.random.default_rng(0)
    image, grid = random.normal(size=(2, 3, 5, 4)), random.uniform(-1, 1, (2, 3, 4, 2))

    def swapped(image: Any, grid: Any) -> Any:
        return jnp.moveaxis(grid_sample(jnp.moveaxis(image, 1, -1), grid[..., ::-1]), -1, 1)

    assert max(against_torch(partial(F.grid_sample, align_corners=False), swapped, image, grid).values()) > 1e-3


@pytest.mark.sweep
def test_one_element_is_all_there_is() -> None:
    image, grid = jnp.full((1, 1, 1, 2), 3.0), jnp.linspace(-3, 3, 8).reshape(1, 2, 2, 2)
    same = grid_sample(image, grid, padding_mode="reflection", align_corners=True)
    np.testing.assert_array_equal(same, np.full((1, 2, 2, 2), 3.0))


def test_what_is_not_there_is_refused() -> None:
    image, grid = jnp.ones((1, 4, 4, 2)), jnp.zeros((1, 3, 3, 2))
    with pytest.raises(UnknownChoice):
        grid_sample(image, grid, mode="lanczos")
    with pytest.raises(UnknownChoice):
        grid_sample(image, grid, padding_mode="circular")
    with pytest.raises(UsageError, match="grid_sample"):
        grid_sample(image, grid[..., :1])
