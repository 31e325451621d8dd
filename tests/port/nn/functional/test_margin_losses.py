"""multi_margin and multilabel_margin against torch: every reduction and option, and the edges of the hinges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.errors import UsageError
from port.nn.functional import multi_margin_loss, multilabel_margin_loss

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

F = torch.nn.functional
TOLERANCE = 1e-13
REDUCTIONS = ["none", "mean", "sum"]

generator = np.random.default_rng(0)
SCORES = generator.normal(0.3, 1.2, (6, 4))
LABELS = generator.integers(0, 4, 6)
WEIGHT = np.array([0.3, 2.0, 1.2, 3.1])
# Several labels; none; all; one twice; what follows −1 is not read.
LABEL_SETS = np.array([[3, 1, -1, 2], [-1, 0, 1, 2], [0, 3, 1, 2], [2, 2, -1, -1], [1, -1, 1, 1], [0, 2, 3, -1]])
EDGES = np.array([[1.0, 0.0, 0.5, 2.0], [0.25, 1.25, 0.25, -0.75]])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize(("p", "margin"), [(1, 1.0), (2, 0.5)])
def test_multi_margin(against_torch: Callable[..., Any], p: int, margin: float, weight: Any, reduction: str) -> None:
    options = {"p": p, "margin": margin, "weight": weight, "reduction": reduction}
    for x, y in ((SCORES, LABELS), (SCORES[2], np.array(3)), (EDGES, np.array([0, 1]))):
        assert max(against_torch(F.multi_margin_loss, multi_margin_loss, x, y, **options).values()) < TOLERANCE


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multilabel_margin(against_torch: Callable[..., Any], reduction: str) -> None:
    for x, y in ((SCORES, LABEL_SETS), (SCORES[2], LABEL_SETS[0]), (EDGES, np.array([[0, -1, 2, 1], [1, -1, 0, 0]]))):
        seen = against_torch(F.multilabel_margin_loss, multilabel_margin_loss, x, y, reduction=reduction)
        assert max(seen.values()) < TOLERANCE


def test_the_edge_matters(against_torch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """`jnp.maximum` halves the gradient at the edge."""
    monkeypatch.setattr(jax.nn, "relu", lambda x: jnp.maximum(x, 0))
    for theirs, ours, y in (
        (F.multi_margin_loss, multi_margin_loss, np.array([0, 1])),
        (F.multilabel_margin_loss, multilabel_margin_loss, np.array([[0, -1, 2, 1], [1, -1, 0, 0]])),
    ):
        seen = against_torch(theirs, ours, EDGES, y)
        assert seen["output"] < TOLERANCE
        assert seen["gradient of input 0"] > 0.1


@pytest.mark.parametrize("fault", [{"p": 1}, {"margin": 1.0}, {"weight": None}], ids=lambda fault: next(iter(fault)))
def test_a_fault_is_seen(against_torch: Callable[..., Any], fault: dict[str, Any]) -> None:
    options = {"p": 2, "margin": 0.5, "weight": WEIGHT}
    seen = against_torch(
        F.multi_margin_loss, lambda *a, **options: multi_margin_loss(*a, **(options | fault)), SCORES, LABELS, **options
    )
    assert max(seen.values()) > 1e-3


@pytest.mark.sweep
def test_no_class() -> None:
    """Where torch raises."""
    scores = jnp.asarray(SCORES[:2])
    for label in (4, -1):
        losses = multi_margin_loss(scores, jnp.array([1, label]), reduction="none")
        np.testing.assert_array_equal(jnp.isnan(losses), [False, True])
    losses = multilabel_margin_loss(scores, jnp.array([[1, 4, -1, 0], [1, -1, 4, 0]]), reduction="none")
    np.testing.assert_array_equal(jnp.isnan(losses), [True, False])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_keeps_the_dtype(dtype: Any) -> None:
    x = jnp.asarray(SCORES, dtype)
    for loss in (
        lambda x: multi_margin_loss(x, jnp.asarray(LABELS), p=2, weight=jnp.asarray(WEIGHT, dtype)),
        lambda x: multilabel_margin_loss(x, jnp.asarray(LABEL_SETS)),
    ):
        assert jax.jit(loss)(x).dtype == dtype
        assert jax.jit(jax.grad(loss))(x).dtype == dtype


def test_errors() -> None:
    x, y = jnp.ones((2, 3)), jnp.array([0, 1])
    with pytest.raises(UsageError, match="unknown reduction 'all'"):
        multi_margin_loss(x, y, reduction="all")
    with pytest.raises(UsageError, match="unknown reduction 'all'"):
        multilabel_margin_loss(x, jnp.zeros((2, 3), int), reduction="all")
    with pytest.raises(UsageError, match="p = 1 or p = 2, got 3"):
        multi_margin_loss(x, y, p=3)
    with pytest.raises(UsageError, match=r"need shape \(2,\), got \(3,\)"):
        multi_margin_loss(x, jnp.zeros(3, int))
    with pytest.raises(UsageError, match=r"3 classes need shape \(3,\), got \(2,\)"):
        multi_margin_loss(x, y, weight=jnp.ones(2))
    with pytest.raises(UsageError, match=r"equal shapes; got \(2, 3\) and \(2,\)"):
        multilabel_margin_loss(x, y)
