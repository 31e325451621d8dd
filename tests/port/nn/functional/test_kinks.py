"""Norms and absolute values against torch, at their kinks above all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.nn.functional.kinks import absolute, std, vector_norm

TOLERANCE = 1e-14

VECTORS = np.random.default_rng(0).normal(0.3, 1.2, (4, 5))
KINKS = np.array([[0.0, 0.0, 0.0], [0.0, -1.5, 2.0], [2.0, -2.0, 2.0], [0.0, 0.0, 3.0]])


def test_absolute(against_torch: Callable[..., Any]) -> None:
    for x in (VECTORS, KINKS):
        assert max(against_torch(torch.abs, absolute, x).values()) == 0
    assert against_torch(torch.abs, jnp.abs, KINKS)["gradient of input 0"] > 0.1  # what it is for


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, math.inf, -math.inf])
@pytest.mark.parametrize("x", [VECTORS, KINKS], ids=["random", "kinks"])
@pytest.mark.parametrize("dim", [-1, (0,), (1, 0), None])
@pytest.mark.thin(4)
def test_vector_norm(against_torch: Callable[..., Any], x: np.ndarray, p: float, dim: Any) -> None:
    for keepdim in (False, True):
        seen = against_torch(
            lambda x, keep=keepdim: torch.linalg.vector_norm(x, p, dim, keep),
            lambda x, keep=keepdim: vector_norm(x, p, dim, keep),
            x,
        )
        assert max(seen.values()) < TOLERANCE


def test_vector_norm_counts(float64: None) -> None:
    np.testing.assert_array_equal(vector_norm(jnp.asarray(KINKS), 0, -1), [0, 2, 3, 1])
    assert vector_norm(jnp.asarray(KINKS + 0j), 0).dtype == float


@pytest.mark.parametrize("x", [VECTORS, KINKS, KINKS + 3], ids=["random", "kinks", "3"])
@pytest.mark.parametrize("dim", [-1, (0,), (1, 0), None])
@pytest.mark.thin(4)
def test_std(against_torch: Callable[..., Any], x: np.ndarray, dim: Any) -> None:
    for correction, keepdim in ((1, False), (0, True)):
        seen = against_torch(
            lambda x, by=correction, keep=keepdim: torch.std(x, dim, correction=by, keepdim=keep),
            lambda x, by=correction, keep=keepdim: std(x, dim, by, keep),
            x,
        )
        assert max(seen.values()) < TOLERANCE


@pytest.mark.parametrize("x", [VECTORS, KINKS], ids=["random", "kinks"])
def test_complex_numbers(against_torch: Callable[..., Any], x: np.ndarray) -> None:
    turned = 2 - 3j
    for p in (0.5, 1.0, 2.0, 3.0, math.inf):
        seen = against_torch(
            lambda x, p=p: torch.linalg.vector_norm(x * turned, p, -1), lambda x, p=p: vector_norm(x * turned, p, -1), x
        )
        assert max(seen.values()) < TOLERANCE
    assert max(against_torch(lambda x: torch.std(x * turned, -1), lambda x: std(x * turned, -1), x).values()) < 1e-14


def test_faults_are_seen(against_torch: Callable[..., Any]) -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x, 2, -1)

    assert against_torch(norm, lambda x: jnp.linalg.norm(x, axis=-1), KINKS)["gradient of input 0"] == math.inf
    assert min(against_torch(norm, lambda x: vector_norm(x, 2.01, -1), VECTORS).values()) > 1e-4

    def spread(x: torch.Tensor) -> torch.Tensor:
        return torch.std(x, -1)

    assert against_torch(spread, lambda x: jnp.std(x, -1, ddof=1), KINKS)["gradient of input 0"] == math.inf
    assert min(against_torch(spread, lambda x: std(x, -1, 0), VECTORS).values()) > 1e-2


def test_not_a_number(float64: None) -> None:
    for p in (1.0, 2.0, 3.0, math.inf):
        assert jnp.isnan(vector_norm(jnp.array([1.0, jnp.nan]), p))


def test_the_gradient_at_not_a_number(float64: None) -> None:
    x = np.array([[1.5, np.nan, -2.0], [0.5, -1.0, 2.0]])
    theirs = torch.from_numpy(x).requires_grad_()
    torch.linalg.vector_norm(theirs, 1, -1).sum().backward()
    ours = jax.grad(lambda x: vector_norm(x, 1, -1).sum())(jnp.asarray(x))
    np.testing.assert_array_equal(ours, theirs.grad.numpy())
    assert np.isnan(jax.grad(lambda x: (x * jnp.sign(x)).sum())(jnp.asarray(x))).any(), "what it is for"
