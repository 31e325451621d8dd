"""Dropout in training: with one generator on both sides the twins that the pairs name drop what torch's layers drop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

from port.pairs import build_twin, twin_pair
from port.random import dropout_key, shared_dropout


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def both(layer: nn.Module, x: np.ndarray, **faults: Any) -> tuple[np.ndarray, np.ndarray]:
    """Outputs in torch's layout."""
    key = dropout_key(5, 2, x64=True)
    with shared_dropout(layer.train(), key, channels_last=True):
        expected = layer(torch.from_numpy(x)).numpy()
    twin, channels = build_twin(layer), twin_pair(layer).channels
    for name, value in faults.items():
        setattr(twin, name, value)
    # Dropout's mask is drawn in the layout of the JAX side's activation.
    axis = channels if channels is not None else (1 if x.ndim > 2 else -1)
    ours = jax.random.fold_in(jax.random.fold_in(jax.random.key(5), 2), 0)
    got = twin(jnp.moveaxis(jnp.asarray(x), axis, -1), rngs=ours)
    return expected, np.moveaxis(np.asarray(got), -1, axis)


CASES = [
    (nn.Dropout(0.3), (4, 30)),
    (nn.Dropout(0.3), (4, 6, 5, 3)),
    (nn.Dropout1d(0.4), (6, 8, 5)),
    (nn.Dropout1d(0.4), (40, 5)),
    (nn.Dropout2d(0.4), (6, 8, 5, 3)),
    (nn.Dropout3d(0.4), (6, 8, 5, 3, 2)),
    (nn.Dropout3d(0.4), (40, 5, 3, 2)),
]


@pytest.mark.parametrize(("layer", "shape"), CASES, ids=str)
@pytest.mark.thin(3)
def test_W26_the_same_elements_drop(layer: nn.Module, shape: tuple[int, ...]) -> None:
    expected, got = both(layer, np.random.default_rng(0).normal(3, 1, shape))
    np.testing.assert_allclose(got, expected, rtol=1e-15)
    assert 0.1 < (expected == 0).mean() < 0.7


def test_W26_axes_that_share_no_mask_are_seen() -> None:
    x = np.random.default_rng(0).normal(3, 1, (6, 8, 5, 3))
    for fault in ({"broadcast_dims": ()}, {"broadcast_dims": (-1, -2)}, {"rate": 0.3}):
        expected, got = both(nn.Dropout2d(0.4), x, **fault)
        assert ((expected == 0) != (got == 0)).any()


@pytest.mark.filterwarnings("ignore:dropout2d:UserWarning")
def test_W26_dropout2d_takes_three_axes_as_torchs_dropout1d() -> None:
    """(N, C, L) and not (C, H, W): so a twin for it shares the mask along the axis between."""
    x = np.random.default_rng(0).normal(3, 1, (20, 8, 5))
    with shared_dropout(layer := nn.Dropout2d(0.4).train(), dropout_key(5, 2, x64=True)):
        y = layer(torch.from_numpy(x)).numpy()
    dropped = (y == 0).all(-1)
    assert ((y == 0) == dropped[..., None]).all()
    assert 0.2 < dropped.mean() < 0.6
    assert not dropped.all(0).any()
    _, got = both(nn.Dropout1d(0.4), x)
    np.testing.assert_allclose(y, got, rtol=1e-15)
