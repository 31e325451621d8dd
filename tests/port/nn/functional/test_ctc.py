"""ctc_loss against torch: layouts of targets, lengths, reductions, repeated labels, impossible and empty sequences."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from port.errors import UsageError
from port.nn.functional import ctc_loss

# The short run has these through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

F = torch.nn.functional
TOLERANCE = 1e-12
FRAMES, BATCH, CLASSES = 9, 4, 5

generator = np.random.default_rng(0)
LOGITS = generator.normal(0.3, 1.5, (FRAMES, BATCH, CLASSES))
LOG_PROBS = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
# One with a label twice in a row, one of full length, one empty.
TARGETS = np.array([[1, 1, 3, 0], [2, 4, 1, 3], [4, 2, 0, 0], [0, 0, 0, 0]])
INPUT_LENGTHS, TARGET_LENGTHS = np.array([9, 8, 5, 7]), np.array([3, 4, 2, 0])
ONE_ROW = np.concatenate([row[:length] for row, length in zip(TARGETS, TARGET_LENGTHS, strict=True)])


jitted = jax.jit(ctc_loss, static_argnames=("reduction", "zero_infinity"))


def ctc(against_torch: Callable[..., Any], ours: Any = ctc_loss, *, targets: Any = TARGETS, **options: Any) -> float:
    given = {"input_lengths": INPUT_LENGTHS, "target_lengths": TARGET_LENGTHS} | options
    return max(against_torch(F.ctc_loss, ours, given.pop("log_probs", LOG_PROBS), targets, **given).values())


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("targets", [TARGETS, ONE_ROW], ids=["padded", "one row"])
def test_against_torch(against_torch: Callable[..., Any], targets: np.ndarray, reduction: str) -> None:
    assert ctc(against_torch, targets=targets, reduction=reduction) < TOLERANCE


def test_lengths_as_numbers(against_torch: Callable[..., Any]) -> None:
    lengths = {"input_lengths": tuple(INPUT_LENGTHS.tolist()), "target_lengths": tuple(TARGET_LENGTHS.tolist())}
    for targets in (TARGETS, ONE_ROW):
        assert ctc(against_torch, targets=targets, **lengths) < TOLERANCE


def test_another_blank(against_torch: Callable[..., Any]) -> None:
    assert ctc(against_torch, targets=np.where(TARGETS == 2, 0, TARGETS), blank=2) < TOLERANCE


def test_one_sequence(against_torch: Callable[..., Any]) -> None:
    for reduction, lengths in (("none", (np.array(9), np.array(3))), ("mean", ((9,), (3,)))):
        options = {"input_lengths": lengths[0], "target_lengths": lengths[1], "reduction": reduction}
        assert ctc(against_torch, log_probs=LOG_PROBS[:, 0], targets=TARGETS[0, :3], **options) < TOLERANCE


def test_padding_is_not_read(against_torch: Callable[..., Any]) -> None:
    """Neither labels nor frames beyond a sequence's length, whatever they are."""
    padding = np.arange(4) >= TARGET_LENGTHS[:, None]
    log_probs = LOG_PROBS.copy()
    log_probs[7:, 2] = 5.0
    seen = ctc(against_torch, partial_targets(np.where(padding, 77, TARGETS)), targets=TARGETS, log_probs=log_probs)
    assert seen < TOLERANCE


def partial_targets(targets: np.ndarray) -> Callable[..., jax.Array]:
    return lambda log_probs, _, **options: ctc_loss(log_probs, jnp.asarray(targets), **options)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_impossible(against_torch: Callable[..., Any], reduction: str, zero_infinity: bool) -> None:
    """Three labels, two of them the same, need four frames: an infinite loss and a gradient of NaN, or 0 and 0. Two
    labels need two frames, and no labels none."""
    input_lengths = np.array([3, 8, 0, 0])
    options = {"input_lengths": input_lengths, "reduction": reduction, "zero_infinity": zero_infinity}
    assert ctc(against_torch, **options) < TOLERANCE
    losses = jitted(LOG_PROBS, TARGETS, input_lengths, TARGET_LENGTHS, reduction="none")
    np.testing.assert_array_equal(np.isinf(losses), [True, False, True, False])


def test_gradient_of_the_logits(against_torch: Callable[..., Any]) -> None:
    """Through a log_softmax, the gradient is that of the loss: checked by differences."""

    @jax.jit
    def loss(logits: jax.Array) -> jax.Array:
        return ctc_loss(jax.nn.log_softmax(logits), TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, reduction="sum")

    logits, direction = jnp.asarray(LOGITS), jnp.asarray(generator.normal(size=LOGITS.shape))
    step = 1e-6
    measured = (loss(logits + step * direction) - loss(logits - step * direction)) / (2 * step)
    _, forward = jax.jit(partial(jax.jvp, loss))((logits,), (direction,))
    backward = (jax.jit(jax.grad(loss))(logits) * direction).sum()
    np.testing.assert_allclose([forward, backward], [measured, measured], rtol=1e-8)


def test_forbidden_classes(float64: None) -> None:
    """A log-probability of −∞ leaves the gradient finite, where torch's is NaN."""
    log_probs = jnp.asarray(LOG_PROBS).at[1, 0, 4].set(-jnp.inf)
    loss, gradient = jax.jit(jax.value_and_grad(ctc_loss))(log_probs, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS)
    assert jnp.isfinite(loss)
    assert jnp.isfinite(gradient).all()


def test_optax(float64: None) -> None:
    """optax agrees where a sequence is possible, and gives some 1e5 where torch's loss is infinite."""
    logits = jnp.asarray(LOGITS).swapaxes(0, 1)
    input_lengths = np.array([3, 8, 5, 7])
    theirs = jax.jit(optax.ctc_loss)(
        logits, np.arange(FRAMES) >= input_lengths[:, None], TARGETS, np.arange(4) >= TARGET_LENGTHS[:, None]
    )
    ours = jitted(LOG_PROBS, TARGETS, input_lengths, TARGET_LENGTHS, reduction="none")
    np.testing.assert_allclose(ours[1:], theirs[1:], rtol=1e-10)
    assert ours[0] == math.inf
    assert 9e4 < theirs[0] < 1.1e5


FAULTS: dict[str, Any] = {
    "blank": partial(ctc_loss, blank=4),
    "mean without target lengths": lambda *a, **options: ctc_loss(*a, reduction="none", **options).mean(),
    "repeated labels": lambda log_probs, targets, **options: ctc_loss(log_probs, targets.at[0, 1].set(2), **options),
    "lengths forgotten": lambda log_probs, targets, input_lengths, target_lengths: ctc_loss(
        log_probs, targets, jnp.full(BATCH, FRAMES), target_lengths
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_seen(against_torch: Callable[..., Any], fault: Any) -> None:
    assert ctc(against_torch, fault) > 1e-3


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_keeps_the_dtype(dtype: Any) -> None:
    log_probs = jnp.asarray(LOG_PROBS, dtype)
    loss, gradient = jax.jit(jax.value_and_grad(ctc_loss))(log_probs, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS)
    assert loss.dtype == gradient.dtype == dtype
    expected = jitted(log_probs.astype(jnp.float32), TARGETS, INPUT_LENGTHS, TARGET_LENGTHS)
    np.testing.assert_allclose(loss.astype(jnp.float32), expected, rtol=float(jnp.finfo(dtype).eps))


def test_what_only_a_compiled_program_knows() -> None:
    """Lengths that are too long, and labels that are no class, give NaN: torch raises, or reads what it should not."""
    losses = jax.jit(partial(ctc_loss, reduction="none"))
    lengths = jnp.asarray(INPUT_LENGTHS), jnp.asarray(TARGET_LENGTHS)
    for faulty in (
        losses(LOG_PROBS, TARGETS, lengths[0].at[1].set(10), lengths[1]),
        losses(LOG_PROBS, TARGETS, lengths[0], lengths[1].at[1].set(5)),
        losses(LOG_PROBS, jnp.asarray(TARGETS).at[1, 2].set(5), *lengths),
        losses(LOG_PROBS, jnp.asarray(TARGETS).at[1, 2].set(-1), *lengths),
    ):
        np.testing.assert_array_equal(np.isnan(faulty), [False, True, False, False])


def test_errors() -> None:
    with pytest.raises(UsageError, match="unknown reduction 'batchmean'"):
        ctc_loss(LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, reduction="batchmean")
    with pytest.raises(UsageError, match="one of 5 classes, got 5"):
        ctc_loss(LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, blank=5)
    with pytest.raises(UsageError, match="input_lengths must be at most 9, got 10"):
        ctc_loss(LOG_PROBS, TARGETS, INPUT_LENGTHS + 1, TARGET_LENGTHS)
    with pytest.raises(UsageError, match="target_lengths must be at most 4, got 5"):
        ctc_loss(LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS + 1)
    with pytest.raises(UsageError, match=r"input_lengths of a batch of 4 must have shape \(4,\), got \(3,\)"):
        ctc_loss(LOG_PROBS, TARGETS, INPUT_LENGTHS[:3], TARGET_LENGTHS)
    with pytest.raises(UsageError, match="sum to 9, but there are 8 labels"):
        ctc_loss(LOG_PROBS, ONE_ROW[:8], INPUT_LENGTHS, TARGET_LENGTHS)
    with pytest.raises(UsageError, match=r"batch of 4 sequences got targets of shape \(3, 4\)"):
        ctc_loss(LOG_PROBS, TARGETS[:3], INPUT_LENGTHS, TARGET_LENGTHS)
