"""Losses of distances and of pairs against torch: every reduction and option, edges, ties and equal vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.errors import UsageError
from port.nn.functional import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

F = torch.nn.functional
TOLERANCE = 1e-13
REDUCTIONS = ["none", "mean", "sum"]

generator = np.random.default_rng(0)
X, Y, Z = generator.normal(0.3, 1.2, (3, 7, 5))
SIGNS = np.array([1.0, -1, -1, 1, -1, 1, -1])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("margin", [-0.5, 0.2])
def test_cosine(against_torch: Callable[..., Any], margin: float, reduction: str) -> None:
    options = {"margin": margin, "reduction": reduction}
    for target in (SIGNS, SIGNS.astype(int), np.full(7, 2)):
        seen = against_torch(
            F.cosine_embedding_loss, cosine_embedding_loss, X, Y, target, differentiate=(0, 1), **options
        )
        assert max(seen.values()) < TOLERANCE
    seen = against_torch(F.cosine_embedding_loss, cosine_embedding_loss, X[0], Y[0], np.array(1), **options)
    assert max(seen.values()) < TOLERANCE


def test_cosine_edges(against_torch: Callable[..., Any]) -> None:
    """A vector of zeros has a cosine of 0 and a large gradient; at the margin, the gradient is 0."""
    x = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    y = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]])
    seen = against_torch(F.cosine_embedding_loss, cosine_embedding_loss, x, y, np.array([1, -1, -1]), reduction="none")
    assert max(seen.values()) < TOLERANCE


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("margin", [1.0, 0.3])
def test_hinge(against_torch: Callable[..., Any], margin: float, reduction: str) -> None:
    options = {"margin": margin, "reduction": reduction, "differentiate": (0,)}
    for target in (np.tile(SIGNS[:, None], 5), np.full((7, 5), 0.5)):
        assert (
            max(against_torch(F.hinge_embedding_loss, hinge_embedding_loss, X, target, **options).values()) < TOLERANCE
        )


def test_hinge_edge(against_torch: Callable[..., Any]) -> None:
    for target in (1.0, -1.0, 0.0):
        inputs = np.array([1.0, 0.0, 2.0]), np.full(3, target)
        seen = against_torch(
            F.hinge_embedding_loss, hinge_embedding_loss, *inputs, differentiate=(0,), reduction="none"
        )
        assert max(seen.values()) < TOLERANCE


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_ranking(against_torch: Callable[..., Any], margin: float, reduction: str) -> None:
    edges = np.array([1.0, 0.0, 1.5]), np.array([1.0, 0.5, 1.0]), np.array([1.0, -1.0, 1.0])
    for inputs in ((X[:, 0], Y[:, 0], SIGNS), (X, Y, SIGNS[:, None]), edges):
        seen = against_torch(
            F.margin_ranking_loss,
            margin_ranking_loss,
            *inputs,
            margin=margin,
            reduction=reduction,
            differentiate=(0, 1),
        )
        assert max(seen.values()) < TOLERANCE


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_triplet(against_torch: Callable[..., Any], p: float, swap: bool, reduction: str) -> None:
    options = {"p": p, "swap": swap, "margin": 1.5, "eps": 1e-3, "reduction": reduction}
    assert max(against_torch(F.triplet_margin_loss, triplet_margin_loss, X, Y, Z, **options).values()) < TOLERANCE


# An anchor at the margin's edge, one as far from either other, and one where all are equal.
@pytest.mark.parametrize(
    "vectors",
    [
        ([[0.0, 1.0]], [[0.0, 3.0]], [[3.0, 1.0]]),
        ([[0.0, 1.0]], [[0.0, -1.0]], [[1.0, 0.0]]),
        ([[2.0, 1.0]], [[2.0, 1.0]], [[2.0, 1.0]]),
    ],
)
def test_triplet_edges(against_torch: Callable[..., Any], vectors: Any) -> None:
    inputs = [np.array(vector) for vector in vectors]
    for p in (1.0, 2.0, 3.0, math.inf):
        seen = against_torch(F.triplet_margin_loss, triplet_margin_loss, *inputs, p=p, eps=0.0, swap=True)
        assert max(seen.values()) < TOLERANCE


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("swap", [False, True])
def test_triplet_with_distance(against_torch: Callable[..., Any], swap: bool, reduction: str) -> None:
    def theirs(*vectors: torch.Tensor, **options: Any) -> torch.Tensor:
        return F.triplet_margin_with_distance_loss(
            *vectors, distance_function=lambda x, y: (x - y).square().sum(-1), **options
        )

    def ours(*vectors: jax.Array, **options: Any) -> jax.Array:
        return triplet_margin_with_distance_loss(
            *vectors, distance_function=lambda x, y: jnp.square(x - y).sum(-1), **options
        )

    options = {"swap": swap, "margin": 1.5, "reduction": reduction}
    assert max(against_torch(theirs, ours, X, Y, Z, **options).values()) < TOLERANCE
    default = F.triplet_margin_with_distance_loss, triplet_margin_with_distance_loss
    assert max(against_torch(*default, X, Y, Z, **options).values()) < TOLERANCE


FAULTS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "margin": (F.cosine_embedding_loss, lambda *a: cosine_embedding_loss(*a, margin=0.1), (X, Y, SIGNS)),
    "strangers": (F.hinge_embedding_loss, lambda x, t: hinge_embedding_loss(x, -t), (X[:, 0], SIGNS)),
    "order": (F.margin_ranking_loss, lambda x, y, t: margin_ranking_loss(y, x, t), (X[:, 0], Y[:, 0], SIGNS)),
    "norm": (F.triplet_margin_loss, lambda *a: triplet_margin_loss(*a, p=1), (X, Y, Z)),
    "swap": (F.triplet_margin_loss, lambda *a: triplet_margin_loss(*a, swap=True), (X, Y, Z)),
}


@pytest.mark.parametrize(("theirs", "ours", "inputs"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_seen(against_torch: Callable[..., Any], theirs: Any, ours: Any, inputs: Any) -> None:
    count = len(inputs) if theirs is F.triplet_margin_loss else len(inputs) - 1
    assert max(against_torch(theirs, ours, *inputs, differentiate=tuple(range(count))).values()) > 1e-3


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_keeps_the_dtype(dtype: Any) -> None:
    x, y, z = (jnp.asarray(a, dtype) for a in (X, Y, Z))
    signs = jnp.asarray(SIGNS, dtype)
    for loss in (
        lambda x: cosine_embedding_loss(x, y, signs),
        lambda x: hinge_embedding_loss(x, signs[:, None]),
        lambda x: margin_ranking_loss(x, y, signs[:, None]),
        lambda x: triplet_margin_loss(x, y, z, swap=True),
        lambda x: triplet_margin_loss(x, y, z, p=3),
    ):
        assert jax.jit(loss)(x).dtype == dtype
        assert jax.jit(jax.grad(loss))(x).dtype == dtype


def test_errors() -> None:
    x, t = jnp.ones((2, 3)), jnp.ones(2)
    with pytest.raises(UsageError, match=r"embeddings \(…, D\) twice and targets \(…\); got"):
        cosine_embedding_loss(x, x, x)
    for call in (
        lambda: cosine_embedding_loss(x, x, t, reduction="max"),
        lambda: hinge_embedding_loss(x, x, reduction="max"),
        lambda: margin_ranking_loss(x, x, x, reduction="max"),
        lambda: triplet_margin_loss(x, x, x, reduction="max"),
    ):
        with pytest.raises(UsageError, match="unknown reduction 'max'"):
            call()
    with pytest.raises(UsageError, match=r"equal numbers of axes; got shapes \(2, 3\), \(2, 3\), \(2,\)"):
        margin_ranking_loss(x, x, t)
    with pytest.raises(UsageError, match="equal numbers of axes"):
        triplet_margin_loss(x, x, t)
    with pytest.raises(UsageError, match="positive margin, got 0"):
        triplet_margin_loss(x, x, x, margin=0)
