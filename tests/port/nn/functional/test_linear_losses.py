"""linear_cross_entropy against torch: labels and probabilities, several places, and its chunks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.extend import core

from port.errors import UsageError
from port.nn.functional import linear_cross_entropy

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

F = torch.nn.functional
TOLERANCE = 1e-13
ROWS, FEATURES, CLASSES = 7, 5, 4

generator = np.random.default_rng(0)
INPUT = generator.normal(0.3, 1.2, (ROWS, FEATURES))
WEIGHT = np.array([0.3, 2.0, 1.2, 3.1])
PLACES = {"one place": (), "several places": (3, 2)}


def arrays(places: tuple[int, ...], probabilities: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weight, bias and target in torch's layout."""
    weight = generator.normal(0.1, 0.7, (CLASSES, *places, FEATURES))
    bias = generator.normal(0.1, 0.7, (CLASSES, *places))
    if probabilities:
        return weight, bias, np.moveaxis(generator.dirichlet(np.ones(CLASSES), (ROWS, *places)), -1, 1).copy()
    target = generator.integers(0, CLASSES, (ROWS, *places))
    target[3] = -100
    return weight, bias, target


def in_our_layout(
    input: jax.Array, linear_weight: jax.Array, target: jax.Array, linear_bias: jax.Array, **options: Any
) -> jax.Array:
    """(C, *places, in) → (in, *places, C), and likewise the others."""
    kernel = jnp.moveaxis(linear_weight, (0, -1), (-1, 0))
    if jnp.issubdtype(target.dtype, jnp.floating):
        target = jnp.moveaxis(target, 1, -1)
    bias = jnp.moveaxis(linear_bias, 0, -1)
    return linear_cross_entropy(input, kernel, target, linear_bias=bias, **options)


def theirs(
    input: torch.Tensor, linear_weight: torch.Tensor, target: torch.Tensor, bias: torch.Tensor, **options: Any
) -> torch.Tensor:
    return F.linear_cross_entropy(input, linear_weight, target, linear_bias=bias, **options)


@pytest.mark.parametrize("chunk_size", [None, 3, 7, "auto"])
@pytest.mark.parametrize("probabilities", [False, True], ids=["labels", "probabilities"])
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_chunks(
    against_torch: Callable[..., Any], places: tuple[int, ...], probabilities: bool, chunk_size: Any
) -> None:
    weight, bias, target = arrays(places, probabilities)
    ours = partial(in_our_layout, chunk_size=chunk_size)
    options = {"weight": WEIGHT, "label_smoothing": 0.1}
    assert max(against_torch(theirs, ours, INPUT, weight, target, bias, **options).values()) < TOLERANCE


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_reductions(against_torch: Callable[..., Any], chunk_size: int | None, reduction: str) -> None:
    weight, bias, target = arrays((3, 2), False)
    ours = partial(in_our_layout, chunk_size=chunk_size)
    options = {"reduction": reduction, "ignore_index": -100}
    assert max(against_torch(theirs, ours, INPUT, weight, target, bias, **options).values()) < TOLERANCE


def test_one_row(against_torch: Callable[..., Any]) -> None:
    weight, bias, _ = arrays((), False)
    for chunk_size in (None, 1):
        ours = partial(in_our_layout, chunk_size=chunk_size)
        assert max(against_torch(theirs, ours, INPUT[0], weight, np.array(2), bias).values()) < TOLERANCE


@pytest.mark.sweep
def test_several_leading_axes() -> None:
    """More than torch takes: a sequence needs no flattening."""
    weight, _, target = arrays((), False)
    kernel = jnp.asarray(weight.T)
    input, target = jnp.asarray(INPUT[:6]), jnp.asarray(target[:6])
    for chunk_size in (None, 4):
        for reduction in ("none", "mean"):
            options = {"reduction": reduction, "chunk_size": chunk_size}
            flat = linear_cross_entropy(input, kernel, target, **options)
            deep = linear_cross_entropy(input.reshape(2, 3, FEATURES), kernel, target.reshape(2, 3), **options)
            np.testing.assert_allclose(deep.reshape(flat.shape), flat, rtol=1e-6)


def largest_array(loss: Callable[..., jax.Array], *arguments: jax.Array) -> int:
    """Values of the largest array in a program, inner programs included."""

    def sizes(jaxpr: Any) -> list[int]:
        inner = [s for eqn in jaxpr.eqns for sub in core.jaxprs_in_params(eqn.params) for s in sizes(sub)]
        return inner + [v.aval.size for eqn in jaxpr.eqns for v in eqn.outvars]

    return max(sizes(jax.make_jaxpr(jax.grad(loss))(*arguments).jaxpr))


def test_logits_never_exist_at_once() -> None:
    rows, classes = 64, 1000
    arguments = jnp.ones((rows, 8)), jnp.ones((8, classes)), jnp.zeros(rows, int)
    assert largest_array(linear_cross_entropy, *arguments) == rows * classes
    assert largest_array(partial(linear_cross_entropy, chunk_size=4), *arguments) == 4 * classes
    # A row of logits takes more memory than the input: one at a time.
    assert largest_array(partial(linear_cross_entropy, chunk_size="auto"), *arguments) == classes


@pytest.mark.parametrize(
    "fault",
    [{"weight": None}, {"label_smoothing": 0.0}, {"ignore_index": 1}, {"reduction": "sum"}],
    ids=lambda fault: next(iter(fault)),
)
def test_a_fault_is_seen(against_torch: Callable[..., Any], fault: dict[str, Any]) -> None:
    weight, bias, target = arrays((3, 2), False)
    ours = lambda *a, **options: in_our_layout(*a, chunk_size=2, **(options | fault))  # noqa: E731
    options = {"weight": WEIGHT, "label_smoothing": 0.1}
    assert max(against_torch(theirs, ours, INPUT, weight, target, bias, **options).values()) > 1e-3


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_keeps_the_dtype(chunk_size: int | None, dtype: Any) -> None:
    weight, _, target = arrays((), False)
    loss = partial(linear_cross_entropy, chunk_size=chunk_size)
    arguments = jnp.asarray(INPUT, dtype), jnp.asarray(weight.T, dtype), jnp.asarray(target)
    assert jax.jit(loss)(*arguments).dtype == dtype
    assert {g.dtype for g in jax.jit(jax.grad(loss, (0, 1)))(*arguments)} == {jnp.dtype(dtype)}


def test_errors() -> None:
    input, kernel, target = jnp.ones((6, 5)), jnp.ones((5, 3)), jnp.zeros(6, int)
    with pytest.raises(UsageError, match="unknown reduction 'max'"):
        linear_cross_entropy(input, kernel, target, reduction="max")
    with pytest.raises(UsageError, match=r"\(in_features, …, C\); got \(6, 5\) and \(3, 5\)"):
        linear_cross_entropy(input, kernel.T, target)
    with pytest.raises(UsageError, match=r"needs a bias \(3,\), got \(5,\)"):
        linear_cross_entropy(input, kernel, target, linear_bias=jnp.ones(5))
    with pytest.raises(UsageError, match=r"ignore_index \(-100\) has no meaning"):
        linear_cross_entropy(input, kernel, jnp.ones((6, 3)), ignore_index=-100)
    for chunk_size in (0, -1, 2.0, "all"):
        with pytest.raises(UsageError, match="positive number of rows, 'auto' or None; got"):
            linear_cross_entropy(input, kernel, target, chunk_size=chunk_size)
    with pytest.raises(UsageError, match=r"needs targets that start with \(6,\)"):
        linear_cross_entropy(input, kernel, target[:5], chunk_size=2)
