"""l1, mse, huber and smooth_l1 against torch: every reduction, weights, and the kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from port.errors import UsageError
from port.nn.functional import huber_loss, l1_loss, mse_loss, smooth_l1_loss

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

F = torch.nn.functional
TOLERANCE = 1e-14
REDUCTIONS = ["none", "mean", "sum"]

generator = np.random.default_rng(0)
INPUT, TARGET = generator.normal(0.3, 1.2, (2, 3, 5, 2))
WEIGHT = generator.uniform(0.2, 2, (3, 5, 2))
# Differences of 0, of both signs, and of ±0.5, where a Huber loss with that delta changes.
KINKS = np.array([1.0, 1.5, 0.5, 2.0, 0.0, -0.5]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, -0.5])

CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "l1": (F.l1_loss, l1_loss, {}),
    "mse": (F.mse_loss, mse_loss, {}),
    "huber": (F.huber_loss, huber_loss, {"delta": 0.5}),
    "smooth l1": (F.smooth_l1_loss, smooth_l1_loss, {"beta": 0.5}),
    "smooth l1 without a curve": (F.smooth_l1_loss, smooth_l1_loss, {"beta": 0.0}),
}
FUNCTIONS = [l1_loss, mse_loss, huber_loss, smooth_l1_loss]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("theirs", "ours", "options"), CASES.values(), ids=CASES)
def test_against_torch(
    against_torch: Callable[..., Any], theirs: Any, ours: Any, options: dict[str, Any], reduction: str
) -> None:
    for input, target in ((INPUT, TARGET), KINKS):
        seen = against_torch(theirs, ours, input, target, reduction=reduction, **options)
        assert max(seen.values()) < TOLERANCE


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("theirs", "ours", "options"), list(CASES.values())[:3], ids=list(CASES)[:3])
def test_weights(
    against_torch: Callable[..., Any], theirs: Any, ours: Any, options: dict[str, Any], reduction: str
) -> None:
    seen = against_torch(theirs, ours, INPUT, TARGET, reduction=reduction, weight=WEIGHT, **options)
    assert max(seen.values()) < TOLERANCE


def test_G2_mean_of_squares(against_torch: Callable[..., Any]) -> None:
    """optax's l2_loss is half of mse; its huber_loss is delta times smooth_l1."""

    def half(input: jax.Array, target: jax.Array) -> jax.Array:
        return optax.l2_loss(input, target).mean()

    assert max(against_torch(F.mse_loss, lambda *a: 2 * half(*a), INPUT, TARGET).values()) < TOLERANCE
    assert against_torch(F.mse_loss, half, INPUT, TARGET)["output"] == pytest.approx(0.5)

    def huber(input: jax.Array, target: jax.Array) -> jax.Array:
        return optax.huber_loss(input, target, delta=0.5).mean()

    def smooth(input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(input, target, beta=0.5)

    assert max(against_torch(smooth, lambda *a: huber(*a) / 0.5, INPUT, TARGET).values()) < TOLERANCE
    assert against_torch(smooth, huber, INPUT, TARGET)["output"] == pytest.approx(0.5)


FAULTS: dict[str, tuple[str, Any]] = {
    "gradient at zero": ("l1", lambda x, t: jnp.abs(x - t).mean()),
    "delta": ("huber", lambda x, t: huber_loss(x, t, delta=0.51)),
    "sum": ("mse", lambda x, t: mse_loss(x, t, reduction="sum")),
}


@pytest.mark.parametrize(("case", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_seen(against_torch: Callable[..., Any], case: str, fault: Any) -> None:
    theirs, _, options = CASES[case]
    assert max(against_torch(lambda x, t: theirs(x, t, **options), fault, *KINKS).values()) > 1e-3


def test_the_weighted_mean_is_not_that_of_huber() -> None:
    """torch divides by the summed weights in two of the three, by the number of values in the other."""
    x, t, w = map(jnp.asarray, (INPUT, TARGET, WEIGHT))
    for function, count in ((l1_loss, w.sum()), (mse_loss, w.sum()), (huber_loss, w.size)):
        total = function(x, t, weight=w, reduction="sum")
        np.testing.assert_allclose(function(x, t, weight=w), total / count, rtol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_broadcasts_with_a_warning(function: Any) -> None:
    with pytest.warns(UserWarning, match=r"\(4,\) and target \(4, 1\)"):
        assert function(jnp.ones(4), jnp.zeros((4, 1)), reduction="none").shape == (4, 4)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_keeps_the_dtype(function: Any, dtype: Any) -> None:
    x = jnp.asarray(INPUT, dtype)
    for reduction in REDUCTIONS:
        assert jax.jit(lambda x, r=reduction: function(x, x + 1, reduction=r))(x).dtype == dtype
    assert jax.grad(lambda x: function(x, x[::-1]))(x).dtype == dtype


def test_errors() -> None:
    x = jnp.ones((2, 3))
    for function in FUNCTIONS:
        with pytest.raises(UsageError, match="unknown reduction 'main'; there are: mean"):
            function(x, x, reduction="main")
    for function in (l1_loss, mse_loss, huber_loss):
        with pytest.raises(UsageError, match=r"its input's shape \(2, 3\); got \(3,\)"):
            function(x, x, weight=jnp.ones(3))
    with pytest.raises(UsageError, match="positive delta, got 0"):
        huber_loss(x, x, delta=0)
    with pytest.raises(UsageError, match="beta of 0 or more, got -1"):
        smooth_l1_loss(x, x, beta=-1)
