"""Twins draw their initial values as torch draws them, where Flax's own are others (W24)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from torch import nn

from port.pairs import build_twin, resolve, twin_pair

UNIFORM: dict[str, tuple[Callable[[], nn.Module], float]] = {
    "linear": (partial(nn.Linear, 64, 99), 1 / 8),
    "conv": (partial(nn.Conv1d, 32, 64, 4, groups=2), 1 / 8),
    "transposed": (partial(nn.ConvTranspose1d, 64, 16, 4), 1 / 8),
    "bilinear": (partial(nn.Bilinear, 16, 5, 99), 1 / 4),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_W24_uniform_up_to_the_bound(name: str) -> None:
    """No element is beyond the bound and some are near it, the spread is a uniform one's; the bias too."""
    make, bound = UNIFORM[name]
    layer = make()
    twin = build_twin(layer)
    for values in (layer.weight.detach().numpy(), np.asarray(twin.kernel[...])):
        assert 0.95 * bound < np.abs(values).max() <= bound
        assert values.std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
    for values in (layer.bias.detach().numpy(), np.asarray(twin.bias[...])):
        assert 0.5 * bound < np.abs(values).max() <= bound


def test_W24_flaxs_own_are_others() -> None:
    from flax import nnx

    layer = UNIFORM["linear"][0]()
    flaxs = resolve(twin_pair(layer).flax)(64, 99, rngs=nnx.Rngs(0))
    assert np.abs(flaxs.kernel[...]).max() > 1 / 8
    assert not flaxs.bias[...].any()


def test_W24_an_embedding_is_normal() -> None:
    layer = nn.Embedding(400, 30)
    for values in (layer.weight.detach().numpy(), np.asarray(build_twin(layer).embedding[...])):
        assert values.std() == pytest.approx(1, abs=0.04)
