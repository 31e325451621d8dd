"""Distances against torch's, in float64, for vectors of zeros too."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as F

import port.nn.functional as ours

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

TOLERANCE = 1e-13


def vectors(seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(0.5, 2, (3, 4, 5))
    x[seed, 1] = 0
    x[:, 2, seed] = 0
    x[2, 3] *= 1e-10
    return x


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("eps", [1e-8, 0.7])
def test_G3_cosine_similarity(dim: int, eps: float, against_torch: Any) -> None:
    given = {"dim": dim, "eps": eps}
    theirs = partial(F.cosine_similarity, **given)
    assert (
        max(against_torch(theirs, partial(ours.cosine_similarity, **given), vectors(0), vectors(1)).values())
        <= TOLERANCE
    )
    other = partial(ours.cosine_similarity, dim=dim, eps=eps + 9)
    assert max(against_torch(theirs, other, vectors(0), vectors(1)).values()) > 1e-3


def test_G3_a_bound_that_the_gradient_knows_of_is_seen(against_torch: Any) -> None:
    def bounded(x1: jax.Array, x2: jax.Array) -> jax.Array:
        norms = [jnp.maximum(jnp.sqrt(jnp.square(x).sum(1, keepdims=True)), 0.7) for x in (x1, x2)]
        return (x1 / norms[0] * x2 / norms[1]).sum(1)

    x1, x2 = np.full((1, 3), 0.1), np.array([[0.3, -0.2, 0.1]])
    theirs = partial(F.cosine_similarity, dim=1, eps=0.7)
    assert max(against_torch(theirs, partial(ours.cosine_similarity, dim=1, eps=0.7), x1, x2).values()) <= TOLERANCE
    seen = against_torch(theirs, bounded, x1, x2)
    assert seen["output"] <= TOLERANCE
    assert seen["gradient of input 0"] > 1e-2


def test_shapes_that_broadcast(against_torch: Any) -> None:
    x1, x2 = vectors(0), vectors(1)[:1]
    theirs = partial(F.cosine_similarity, dim=2)
    assert max(against_torch(theirs, partial(ours.cosine_similarity, dim=2), x1, x2).values()) <= TOLERANCE
    x2 = vectors(1)[0, :1]
    assert max(against_torch(F.pairwise_distance, ours.pairwise_distance, x1, x2).values()) <= TOLERANCE


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2.0, 3, math.inf])
@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.3])
def test_G3_pairwise_distance(p: float, eps: float, against_torch: Any) -> None:
    x1, x2 = np.round(vectors(0)), np.round(vectors(1))  # ties, and differences of zero
    x1[1], x2[0, 0] = x2[1], x1[0, 0]
    given: dict[str, Any] = {"p": p, "eps": eps, "keepdim": eps > 0}
    theirs = partial(F.pairwise_distance, **given)
    assert max(against_torch(theirs, partial(ours.pairwise_distance, **given), x1, x2).values()) <= TOLERANCE
    other = partial(ours.pairwise_distance, **(given | {"p": p + 1 if p < 9 else 9}))
    assert max(against_torch(theirs, other, x1, x2).values()) > 1e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("function", [ours.cosine_similarity, ours.pairwise_distance])
def test_the_dtype_is_kept(function: Any, dtype: str, float64: None) -> None:
    given = jax.ShapeDtypeStruct((4, 3), jnp.dtype(dtype))
    output, gradient = jax.eval_shape(lambda x: (function(x, x), jax.grad(lambda x: function(x, x).sum())(x)), given)
    assert output.dtype == given.dtype
    assert gradient == given
