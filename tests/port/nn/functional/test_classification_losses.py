"""cross_entropy and nll_loss against torch: labels and probabilities, weights, smoothing, ignored labels, images."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from port.errors import UsageError
from port.nn.functional import cross_entropy, nll_loss

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

F = torch.nn.functional
TOLERANCE = 1e-13
CLASSES = 4

generator = np.random.default_rng(0)
LOGITS = generator.normal(0.3, 1.5, (3, CLASSES, 5, 2))  # torch's layout
LABELS = generator.integers(0, CLASSES, (3, 5, 2))
LABELS[0, 1, 0] = LABELS[2, 3, 1] = -100
PROBABILITIES = np.moveaxis(generator.dirichlet(np.ones(CLASSES), (3, 5, 2)), -1, 1).copy()
WEIGHT = np.array([0.3, 2.0, 1.2, 3.1])

OPTIONS = {
    "plain": {},
    "weights": {"weight": WEIGHT},
    "smoothing": {"label_smoothing": 0.15},
    "ignored": {"ignore_index": 2},
    "all": {"weight": WEIGHT, "label_smoothing": 0.15, "ignore_index": 2},
}
GRID = list(product(OPTIONS, ["none", "mean", "sum"]))


def ignoring(options: dict[str, Any], labels: np.ndarray) -> np.ndarray:
    """Where another label is ignored, −100 is none of torch's."""
    return np.where(labels == -100, 2, labels) if "ignore_index" in options else labels


@pytest.mark.parametrize(("name", "reduction"), GRID)
def test_labels(against_torch: Callable[..., Any], name: str, reduction: str) -> None:
    options = OPTIONS[name]
    labels = ignoring(options, LABELS)
    seen = against_torch(F.cross_entropy, cross_entropy, LOGITS, labels, channels=1, reduction=reduction, **options)
    assert max(seen.values()) < TOLERANCE
    if "label_smoothing" not in options:
        log_probs = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
        seen = against_torch(F.nll_loss, nll_loss, log_probs, labels, channels=1, reduction=reduction, **options)
        assert max(seen.values()) < TOLERANCE


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", ["plain", "weights", "smoothing"])
def test_probabilities(against_torch: Callable[..., Any], name: str, reduction: str) -> None:
    options = OPTIONS[name] | {"reduction": reduction}
    seen = against_torch(F.cross_entropy, cross_entropy, LOGITS, PROBABILITIES, channels=1, **options)
    assert max(seen.values()) < TOLERANCE


def test_one_row(against_torch: Callable[..., Any]) -> None:
    label = np.array(2)
    for options in ({}, {"weight": WEIGHT, "label_smoothing": 0.2}):
        assert (
            max(against_torch(F.cross_entropy, cross_entropy, LOGITS[0, :, 0, 0], label, **options).values())
            < TOLERANCE
        )


def optax_mean(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def test_G1_ignored_labels_leave_the_mean(against_torch: Callable[..., Any]) -> None:
    """optax gives NaN for a label of −100; masking its losses and taking their mean divides by too many."""

    def masked(logits: jax.Array, labels: jax.Array) -> jax.Array:
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(labels, 0))
        return jnp.where(labels == -100, 0, losses).mean()

    rows, labels = LOGITS[:, :, 0, 0], np.array([1, -100, 3])
    assert max(against_torch(F.cross_entropy, cross_entropy, rows, labels).values()) < TOLERANCE
    assert np.isinf(against_torch(F.cross_entropy, optax_mean, rows, labels)["output"])
    assert against_torch(F.cross_entropy, masked, rows, labels)["output"] == pytest.approx(1 / 3)
    assert max(against_torch(F.cross_entropy, optax_mean, rows, np.array([1, 0, 3])).values()) < TOLERANCE


def test_G1_weighted_mean_divides_by_the_weights(against_torch: Callable[..., Any]) -> None:
    rows, labels = LOGITS[:, :, 0, 0], np.array([1, 0, 3])

    def by_count(logits: jax.Array, labels: jax.Array, weight: jax.Array) -> jax.Array:
        return (optax.softmax_cross_entropy_with_integer_labels(logits, labels) * weight[labels]).mean()

    assert max(against_torch(F.cross_entropy, cross_entropy, rows, labels, weight=WEIGHT).values()) < TOLERANCE
    off = WEIGHT[labels].sum() / 3 - 1
    assert against_torch(F.cross_entropy, by_count, rows, labels, weight=WEIGHT)["output"] == pytest.approx(off)


def test_nothing_counts(against_torch: Callable[..., Any]) -> None:
    """The mean is NaN, its gradient 0; with weights of 0 both are NaN."""
    rows = LOGITS[:, :, 0, 0]
    for options in ({}, {"label_smoothing": 0.1}, {"weight": WEIGHT}):
        seen = against_torch(F.cross_entropy, cross_entropy, rows, np.full(3, -100), **options)
        assert max(seen.values()) == 0
    seen = against_torch(F.cross_entropy, cross_entropy, rows, np.array([1, 0, 3]), weight=np.zeros(CLASSES))
    assert max(seen.values()) == 0
    for reduction in ("none", "mean", "sum"):
        seen = against_torch(F.cross_entropy, cross_entropy, rows[:0], np.zeros(0, int), reduction=reduction)
        assert max(seen.values()) == 0


def test_forbidden_classes(against_torch: Callable[..., Any]) -> None:
    """Logits of −∞, beside labels that count and labels that do not."""
    rows = LOGITS[:, :, 0, 0].copy()
    rows[:, 2] = -np.inf
    seen = against_torch(F.cross_entropy, cross_entropy, rows, np.array([1, -100, 3]), weight=WEIGHT)
    assert max(seen.values()) < TOLERANCE


def test_no_class() -> None:
    """Where torch raises."""
    logits = jnp.asarray(LOGITS[:, :, 0, 0])
    for label in (CLASSES, -1):
        losses = cross_entropy(logits, jnp.array([1, label, 3]), reduction="none")
        np.testing.assert_array_equal(jnp.isnan(losses), [False, True, False])


def test_unsigned_labels() -> None:
    logits = jnp.asarray(LOGITS[:, :, 0, 0])
    expected = cross_entropy(logits, jnp.array([1, 0, 3]))
    assert cross_entropy(logits, jnp.array([1, 0, 3], jnp.uint8)) == expected


@pytest.mark.parametrize(
    "fault",
    [{"label_smoothing": 0.1}, {"ignore_index": -100}, {"weight": WEIGHT[::-1].copy()}, {"reduction": "sum"}],
    ids=lambda fault: next(iter(fault)),
)
def test_a_fault_is_seen(against_torch: Callable[..., Any], fault: dict[str, Any]) -> None:
    options = OPTIONS["all"]
    fault = {name: jnp.asarray(value) if name == "weight" else value for name, value in fault.items()}
    seen = against_torch(
        F.cross_entropy,
        lambda *a, **options: cross_entropy(*a, **(options | fault)),
        LOGITS,
        ignoring(options, LABELS),
        channels=1,
        **options,
    )
    assert max(seen.values()) > 1e-3


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_keeps_the_dtype(dtype: Any) -> None:
    logits = jnp.asarray(np.moveaxis(LOGITS, 1, -1), dtype)
    weight = jnp.asarray(WEIGHT, dtype)
    for target in (jnp.asarray(LABELS), jnp.asarray(np.moveaxis(PROBABILITIES, 1, -1), dtype)):

        def loss(logits: jax.Array, target: jax.Array = target) -> jax.Array:
            return cross_entropy(logits, target, weight, label_smoothing=0.1)

        assert jax.jit(loss)(logits).dtype == dtype
        assert jax.jit(jax.grad(loss))(logits).dtype == dtype


def test_half_precision_is_rounded_once() -> None:
    """Of 30,000 classes, as torch has it."""
    logits = np.random.default_rng(0).normal(size=(2, 30_000))
    half = torch.from_numpy(logits).bfloat16()
    expected = F.cross_entropy(half, torch.tensor([3, 7]), reduction="none")
    got = cross_entropy(jnp.asarray(half.float().numpy(), jnp.bfloat16), jnp.array([3, 7]), reduction="none")
    np.testing.assert_array_equal(got.astype(jnp.float32), expected.float().numpy())


def test_errors() -> None:
    logits, labels = jnp.ones((2, 3)), jnp.array([0, 1])
    with pytest.raises(UsageError, match="unknown reduction 'means'; there are: mean"):
        cross_entropy(logits, labels, reduction="means")
    with pytest.raises(UsageError, match="unknown reduction"):
        nll_loss(logits, labels, reduction="batchmean")
    with pytest.raises(UsageError, match=r"between 0 and 1, got 1\.5"):
        cross_entropy(logits, labels, label_smoothing=1.5)
    with pytest.raises(UsageError, match=r"3 classes \(the last axis\) need shape \(3,\), got \(2,\)"):
        cross_entropy(logits, labels, jnp.ones(2))
    with pytest.raises(UsageError, match=r"labels of an input .* are integers \(2, 5, 4\); got .*moveaxis"):
        cross_entropy(jnp.ones((2, 5, 4, 3)), jnp.zeros((2, 4, 3), int))
    with pytest.raises(UsageError, match=r"the logits' shape \(2, 3\); got \(2,\)"):
        cross_entropy(logits, jnp.ones(2))
    with pytest.raises(UsageError, match=r"ignore_index \(1\) has no meaning"):
        cross_entropy(logits, logits, ignore_index=1)
