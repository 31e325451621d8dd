"""Binary cross entropies and soft margins against torch: every reduction, weights, and the ends of the scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.errors import UsageError
from port.nn.functional import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    multilabel_soft_margin_loss,
    soft_margin_loss,
)

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

F = torch.nn.functional
TOLERANCE = 1e-13
REDUCTIONS = ["none", "mean", "sum"]

generator = np.random.default_rng(0)
LOGITS = generator.normal(0.3, 2, (4, 3, 5))
PROBABILITIES, TARGET = generator.uniform(0.05, 0.95, (2, 4, 3, 5))
SIGNS = generator.choice([-1.0, 1.0], (4, 3, 5))
WEIGHT = generator.uniform(0.3, 2, (3, 1))
CLASS_WEIGHT = generator.uniform(0.3, 2, 5)

CASES: dict[str, tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = {
    "probabilities": (F.binary_cross_entropy, binary_cross_entropy, (PROBABILITIES, TARGET), {}),
    "weighted": (F.binary_cross_entropy, binary_cross_entropy, (PROBABILITIES, TARGET), {"weight": WEIGHT}),
    "logits": (F.binary_cross_entropy_with_logits, binary_cross_entropy_with_logits, (LOGITS, TARGET), {}),
    "weighted logits": (
        F.binary_cross_entropy_with_logits,
        binary_cross_entropy_with_logits,
        (LOGITS, TARGET),
        {"weight": WEIGHT, "pos_weight": CLASS_WEIGHT},
    ),
    "soft margin": (F.soft_margin_loss, soft_margin_loss, (LOGITS, SIGNS), {"differentiate": (0,)}),
    "labels": (F.multilabel_soft_margin_loss, multilabel_soft_margin_loss, (LOGITS, TARGET), {}),
    "weighted labels": (
        F.multilabel_soft_margin_loss,
        multilabel_soft_margin_loss,
        (LOGITS, TARGET),
        {"weight": CLASS_WEIGHT},
    ),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("theirs", "ours", "inputs", "options"), CASES.values(), ids=CASES)
def test_against_torch(
    against_torch: Callable[..., Any], theirs: Any, ours: Any, inputs: Any, options: dict[str, Any], reduction: str
) -> None:
    assert max(against_torch(theirs, ours, *inputs, reduction=reduction, **options).values()) < TOLERANCE


def test_ends_of_probabilities(against_torch: Callable[..., Any]) -> None:
    """The logarithm ends at −100, its gradient at 1e12 and not at 0; targets get infinite ones."""
    x = np.array([0.0, 1.0, 0.0, 1.0, 1e-13, 1 - 1e-13, 1e-60])
    t = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    for differentiate in ((0,), (1,), (0, 1)):
        seen = against_torch(
            F.binary_cross_entropy, binary_cross_entropy, x, t, differentiate=differentiate, reduction="none"
        )
        assert max(seen.values()) < TOLERANCE

    def plain(x: jax.Array, t: jax.Array) -> jax.Array:
        logs = jnp.maximum(jnp.log(x), -100), jnp.maximum(jnp.log1p(-x), -100)
        return -t * logs[0] - (1 - t) * logs[1]

    seen = against_torch(lambda x, t: F.binary_cross_entropy(x, t, reduction="none"), plain, x, t, differentiate=(0,))
    assert seen["output"] < TOLERANCE < 1 < seen["gradient of input 0"]


def test_forward_mode(float64: None) -> None:
    """At an end of the scale, the other argument's gradient is infinite; a tangent of 0 must not make it NaN."""
    _, tangent = jax.jvp(lambda x: binary_cross_entropy(x, jnp.array([0.0])), (jnp.array([0.0]),), (jnp.array([1.0]),))
    assert tangent == 0


def test_large_logits(against_torch: Callable[..., Any]) -> None:
    x = np.array([-1000.0, 1000.0, 1000.0, -1000.0, 40.0])
    t = np.array([0.0, 0.0, 1.0, 1.0, 0.3])
    logits = F.binary_cross_entropy_with_logits, binary_cross_entropy_with_logits
    assert max(against_torch(*logits, x, t, reduction="none").values()) < TOLERANCE
    # torch is infinite here.
    np.testing.assert_array_equal(
        soft_margin_loss(jnp.array([-1000.0, 1000.0]), jnp.ones(2), reduction="none"), [1000, 0]
    )
    assert jax.grad(soft_margin_loss)(jnp.array(-1000.0), jnp.array(1.0)) == -1


FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "weight forgotten": ("weighted", {"weight": None}),
    "positive weight forgotten": ("weighted logits", {"pos_weight": None}),
    "class weight forgotten": ("weighted labels", {"weight": None}),
    "sum": ("soft margin", {"reduction": "sum"}),
}


@pytest.mark.parametrize(("case", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_seen(against_torch: Callable[..., Any], case: str, fault: dict[str, Any]) -> None:
    theirs, ours, inputs, options = CASES[case]
    seen = against_torch(theirs, lambda *a, **options: ours(*a, **(options | fault)), *inputs, **options)
    assert max(seen.values()) > 1e-3


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
@pytest.mark.parametrize("case", CASES)
def test_keeps_the_dtype(case: str, dtype: Any) -> None:
    _, ours, inputs, options = CASES[case]
    x, t = (jnp.asarray(a, dtype) for a in inputs)
    options = {name: jnp.asarray(value, dtype) for name, value in options.items() if name != "differentiate"}
    assert jax.jit(ours)(x, t, **options).dtype == dtype
    assert jax.jit(jax.grad(ours))(x, t, **options).dtype == dtype


def test_errors() -> None:
    x = jnp.full((2, 3), 0.4)
    for function in {ours for _, ours, _, _ in CASES.values()}:
        with pytest.raises(UsageError, match="unknown reduction 'avg'"):
            function(x, x, reduction="avg")
        with pytest.raises(UsageError, match=r"equal shapes; got \(2, 3\), \(3,\)"):
            function(x, x[0])
    assert jnp.isnan(binary_cross_entropy(x - 1, x))
