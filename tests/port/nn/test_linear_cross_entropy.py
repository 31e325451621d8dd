"""port.nn.LinearCrossEntropyLoss against torch's: parameters carried over, a step of training, and initial values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import LinearCrossEntropyLoss

# The short run has these through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

TOLERANCE = 1e-12
FEATURES, CLASSES, ROWS = 5, 4, 7
WEIGHT = np.array([0.3, 2.0, 1.2, 3.1])

generator = np.random.default_rng(0)
INPUT = generator.normal(0.3, 1.2, (ROWS, FEATURES))


@pytest.mark.parametrize("chunk_size", [None, 3])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("places", [(), (3, 2)], ids=["one place", "several places"])
def test_against_torch(
    twin_of: Callable[..., Any],
    differences: Callable[..., Any],
    places: tuple[int, ...],
    bias: bool,
    chunk_size: int | None,
) -> None:
    options = {"label_smoothing": 0.1, "ignore_index": 2, "out_features": places}
    weight = torch.from_numpy(WEIGHT)
    theirs = torch.nn.LinearCrossEntropyLoss(
        FEATURES, CLASSES, bias=bias, weight=weight, dtype=torch.float64, **options
    )
    ours = twin_of(
        LinearCrossEntropyLoss,
        theirs,
        FEATURES,
        CLASSES,
        use_bias=bias,
        weight=WEIGHT,
        chunk_size=chunk_size,
        **options,
    )
    ours.weight.set_value(jnp.asarray(WEIGHT))
    target = generator.integers(0, CLASSES, (ROWS, *places))
    assert max(differences(theirs, ours, INPUT, target).values()) < TOLERANCE
    ours.weight.set_value(jnp.asarray(WEIGHT[::-1].copy()))
    assert max(differences(theirs, ours, INPUT, target).values()) > 1e-3


def test_class_weights_are_no_parameters() -> None:
    loss = LinearCrossEntropyLoss(FEATURES, CLASSES, weight=WEIGHT, rngs=nnx.Rngs(0))
    assert set(nnx.to_pure_dict(nnx.state(loss, nnx.Param))) == {"linear"}
    assert set(nnx.to_pure_dict(nnx.state(loss, nnx.BatchStat))) == {"weight"}


def test_initial_values() -> None:
    """Uniform up to 1/√in_features, as torch's linear layer, not flax's normal ones."""
    loss = LinearCrossEntropyLoss(64, 500, use_bias=True, rngs=nnx.Rngs(0))
    for values in (loss.linear.kernel[...], loss.linear.bias[...]):
        assert 0.9 / 8 < jnp.abs(values).max() <= 1 / 8
        np.testing.assert_allclose(values.std(), 1 / 8 / np.sqrt(3), rtol=0.1)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_dtype(dtype: Any) -> None:
    """Computes in it, and keeps its parameters in their own."""
    loss = LinearCrossEntropyLoss(FEATURES, CLASSES, use_bias=True, dtype=dtype, rngs=nnx.Rngs(0))
    target = jnp.zeros(ROWS, int)
    value, gradient = jax.jit(nnx.value_and_grad(lambda loss, x: loss(x, target)))(loss, jnp.asarray(INPUT))
    assert value.dtype == dtype
    assert gradient["linear"]["kernel"][...].dtype == jnp.float32


def test_errors() -> None:
    for options, message in (
        ({"reduction": "max"}, "unknown reduction 'max'"),
        ({"label_smoothing": 2.0}, r"between 0 and 1, got 2\.0"),
        ({"weight": [1.0, 2.0]}, r"4 classes need shape \(4,\), got \(2,\)"),
    ):
        with pytest.raises(UsageError, match=message):
            LinearCrossEntropyLoss(FEATURES, CLASSES, rngs=nnx.Rngs(0), **options)
