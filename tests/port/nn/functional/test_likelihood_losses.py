"""gaussian_nll, poisson_nll and kl_div against torch: every reduction and option, and the edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.errors import UsageError
from port.nn.functional import gaussian_nll_loss, kl_div, poisson_nll_loss

F = torch.nn.functional
TOLERANCE = 1e-13
REDUCTIONS = ["none", "mean", "sum"]

# torch warns that the "mean" of kl_div is not the divergence.
# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = [pytest.mark.filterwarnings("ignore:reduction"), pytest.mark.sweep]

generator = np.random.default_rng(0)
INPUT, TARGET = generator.normal(0.3, 1.2, (2, 4, 3, 5))
VARIANCE = generator.uniform(0.1, 2, (4, 3, 5))
COUNTS = generator.poisson(2.0, (4, 3, 5)) + 0.25  # not a kink of Stirling's term
PROBABILITIES = generator.dirichlet(np.ones(5), (4, 3))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(4, 3, 5), (4, 3, 1), (4, 1, 5), (4, 3)])
def test_gaussian(against_torch: Callable[..., Any], shape: tuple[int, ...], full: bool, reduction: str) -> None:
    var = VARIANCE[tuple(slice(s) for s in shape)].copy() if len(shape) == 3 else VARIANCE[..., 0].copy()
    seen = against_torch(F.gaussian_nll_loss, gaussian_nll_loss, INPUT, TARGET, var, full=full, reduction=reduction)
    assert max(seen.values()) < TOLERANCE


def test_gaussian_one_variance(against_torch: Callable[..., Any]) -> None:
    seen = against_torch(F.gaussian_nll_loss, gaussian_nll_loss, INPUT, TARGET, 0.7)
    assert max(seen.values()) < TOLERANCE


def test_gaussian_least_variance(against_torch: Callable[..., Any]) -> None:
    """The gradient of a variance below eps is that at eps, not 0."""
    var = np.array([0.0, 1e-3, 0.02, 0.5])
    inputs = INPUT[0, 0, :4], TARGET[0, 0, :4], var
    assert max(against_torch(F.gaussian_nll_loss, gaussian_nll_loss, *inputs, eps=0.02).values()) < TOLERANCE

    def clipped(input: jax.Array, target: jax.Array, var: jax.Array, eps: float) -> jax.Array:
        return gaussian_nll_loss(input, target, jnp.maximum(var, eps), eps=eps)

    assert against_torch(F.gaussian_nll_loss, clipped, *inputs, eps=0.02)["gradient of input 2"] > 0.1


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("log_input", [False, True])
def test_poisson(against_torch: Callable[..., Any], log_input: bool, full: bool, reduction: str) -> None:
    seen = against_torch(
        F.poisson_nll_loss,
        poisson_nll_loss,
        INPUT if log_input else VARIANCE,
        COUNTS,
        log_input=log_input,
        full=full,
        eps=0.01,
        reduction=reduction,
    )
    assert max(seen.values()) < TOLERANCE


def test_poisson_small_counts(against_torch: Callable[..., Any]) -> None:
    """Stirling's term begins above 1; no gradient is asked of the counts, whose logarithm has none at 0."""
    counts = np.array([0.0, 1.0, 1.5, 2.0])
    seen = against_torch(
        F.poisson_nll_loss, poisson_nll_loss, INPUT[0, 0, :4], counts, differentiate=(0,), full=True, reduction="none"
    )
    assert max(seen.values()) < TOLERANCE


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div(against_torch: Callable[..., Any], log_target: bool, reduction: str) -> None:
    target = np.log(PROBABILITIES) if log_target else PROBABILITIES
    seen = against_torch(F.kl_div, kl_div, INPUT, target, reduction=reduction, log_target=log_target)
    assert max(seen.values()) < TOLERANCE


def test_kl_div_of_nothing_and_of_scalars(against_torch: Callable[..., Any]) -> None:
    zero = np.array([[0.0, 0.4, 0.6]])
    seen = against_torch(F.kl_div, kl_div, INPUT[0, :1, :3], zero, differentiate=(0,), reduction="batchmean")
    assert max(seen.values()) < TOLERANCE
    seen = against_torch(F.kl_div, kl_div, np.array(-1.0), np.array(0.4), reduction="batchmean")
    assert max(seen.values()) < TOLERANCE


FAULTS: dict[str, tuple[Any, Any, tuple[np.ndarray, ...]]] = {
    "constant left out": (
        lambda *a: F.gaussian_nll_loss(*a, full=True),
        gaussian_nll_loss,
        (INPUT, TARGET, VARIANCE),
    ),
    "rate for its logarithm": (
        F.poisson_nll_loss,
        lambda *a: poisson_nll_loss(*a, log_input=False),
        (VARIANCE, COUNTS),
    ),
    "mean for batchmean": (lambda *a: F.kl_div(*a, reduction="batchmean"), kl_div, (INPUT, PROBABILITIES)),
}


@pytest.mark.parametrize(("theirs", "ours", "inputs"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_seen(against_torch: Callable[..., Any], theirs: Any, ours: Any, inputs: Any) -> None:
    assert against_torch(theirs, ours, *inputs)["output"] > 1e-3


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_keeps_the_dtype(dtype: Any) -> None:
    x, t, v = (jnp.asarray(a, dtype) for a in (INPUT, PROBABILITIES, VARIANCE))
    for loss in (
        lambda x: gaussian_nll_loss(x, t, v, full=True),
        lambda x: gaussian_nll_loss(x, t, 0.5),
        lambda x: poisson_nll_loss(x, t, full=True),
        lambda x: kl_div(x, t, reduction="batchmean"),
        lambda x: kl_div(x, t, log_target=True),
    ):
        assert jax.jit(loss)(x).dtype == dtype
        assert jax.jit(jax.grad(loss))(x).dtype == dtype


def test_errors() -> None:
    x = jnp.ones((2, 3))
    for function, more in ((gaussian_nll_loss, (x,)), (poisson_nll_loss, ()), (kl_div, ())):
        with pytest.raises(UsageError, match="unknown reduction 'batch_mean'"):
            function(x, x, *more, reduction="batch_mean")
    with pytest.raises(UsageError, match="variances of 0 or more, got -1"):
        gaussian_nll_loss(x, x, -1.0)
    for shape in ((3,), (1, 1), (2, 2), (3, 2, 3)):
        with pytest.raises(UsageError, match=r"input \(2, 3\) needs variances"):
            gaussian_nll_loss(x, x, jnp.ones(shape))
    assert jnp.isnan(gaussian_nll_loss(x, x, x.at[0, 0].set(-1)))
