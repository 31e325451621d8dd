"""Activations against torch's, at their kinks and far from zero too, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import port.nn.functional as ours
from port.errors import UsageError

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

OUTPUT, GRADIENT, VISIBLE = 1e-14, 1e-14, 1e-8

# Name: torch's function, ours, and where it bends.
ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[float, ...]]] = {
    "hardtanh": (
        partial(F.hardtanh, min_val=-0.5, max_val=2.0),
        partial(ours.hardtanh, min_val=-0.5, max_val=2.0),
        (-0.5, 2),
    ),
    "leaky_relu": (partial(F.leaky_relu, negative_slope=0.3), partial(ours.leaky_relu, negative_slope=0.3), (0,)),
    "threshold": (
        partial(F.threshold, threshold=0.7, value=-2.0),
        partial(ours.threshold, threshold=0.7, value=-2.0),
        (0.7,),
    ),
    "hardshrink": (partial(F.hardshrink, lambd=0.8), partial(ours.hardshrink, lambd=0.8), (-0.8, 0, 0.8)),
    "softshrink": (partial(F.softshrink, lambd=0.8), partial(ours.softshrink, lambd=0.8), (-0.8, 0, 0.8)),
    "tanhshrink": (F.tanhshrink, ours.tanhshrink, (0,)),
    "softplus": (
        partial(F.softplus, beta=1.7, threshold=4.0),
        partial(ours.softplus, beta=1.7, threshold=4.0),
        (4 / 1.7,),
    ),
    "softplus, negative": (
        partial(F.softplus, beta=2.0, threshold=-9.0),
        partial(ours.softplus, beta=2.0, threshold=-9.0),
        (-4.5,),
    ),
    "hardsigmoid": (F.hardsigmoid, ours.hardsigmoid, (-3, 3)),
    "celu": (partial(F.celu, alpha=0.7), partial(ours.celu, alpha=0.7), (0,)),
    "softmin": (partial(F.softmin, dim=0), partial(ours.softmin, dim=0), (0,)),
}
# What the pairs name without code of ours.
ACTIVATIONS |= {
    "relu": (F.relu, jax.nn.relu, (0,)),
    "relu6": (F.relu6, jax.nn.relu6, (0, 6)),
    "elu": (partial(F.elu, alpha=1.4), partial(jax.nn.elu, alpha=1.4), (0,)),
    "celu of jax": (partial(F.celu, alpha=0.5), partial(jax.nn.celu, alpha=0.5), (0,)),
    "selu": (F.selu, jax.nn.selu, (0,)),
    "silu": (F.silu, jax.nn.silu, (0,)),
    "mish": (F.mish, jax.nn.mish, (0,)),
    "gelu": (F.gelu, partial(jax.nn.gelu, approximate=False), (0,)),
    "gelu, tanh": (partial(F.gelu, approximate="tanh"), partial(jax.nn.gelu, approximate=True), (0,)),
    "sigmoid": (torch.sigmoid, jax.nn.sigmoid, (0,)),
    "tanh": (torch.tanh, jnp.tanh, (0,)),
    "logsigmoid": (F.logsigmoid, jax.nn.log_sigmoid, (0,)),
    "softsign": (F.softsign, jax.nn.soft_sign, (0,)),
    "hardswish": (F.hardswish, jax.nn.hard_swish, (-3, 3)),
}


def inputs(kinks: tuple[float, ...]) -> np.ndarray:
    """Random values, the kinks and their neighbours, and large values of either sign."""
    bends = np.array(kinks, np.float64)
    # Near, but not nearer than a sum rounds; and what is nearer to zero than `tiny` is zero to XLA.
    step = np.maximum(4 * np.spacing(np.abs(bends)), np.finfo(np.float64).tiny)
    around = [bends, bends - step, bends + step]
    far = [5.0, 20.5, 50, 745, 1e4, 1e300]
    return np.concatenate([np.random.default_rng(0).normal(0, 3, 40), *around, far, np.negative(far), [0.0, -0.0]])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_G3_values_and_gradients_are_torchs_at_kinks_and_far_out(name: str, against_torch: Any) -> None:
    theirs, function, kinks = ACTIVATIONS[name]
    seen = against_torch(theirs, function, inputs(kinks))
    assert seen["output"] <= OUTPUT
    assert seen["gradient of input 0"] <= GRADIENT


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("hardtanh", lambda x: jnp.clip(x, -0.5, 2.0)),
        ("leaky_relu", partial(jax.nn.leaky_relu, negative_slope=0.3)),
        ("relu", lambda x: jnp.maximum(x, 0)),
        ("relu6", lambda x: jnp.clip(x, 0, 6)),
        ("threshold", lambda x: jnp.where(x < 0.7, -2.0, x)),
        ("hardshrink", lambda x: jnp.where(abs(x) < 0.8, 0, x)),
        ("softplus", lambda x: jax.nn.softplus(1.7 * x) / 1.7),
        ("hardsigmoid", jax.nn.hard_sigmoid),
        ("celu", partial(jax.nn.celu, alpha=0.7)),
    ],
)
def test_G3_jaxs_own_is_another_there(name: str, fault: Any, against_torch: Any) -> None:
    theirs, _, kinks = ACTIVATIONS[name]
    x = inputs(kinks)[: 40 + 3 * len(kinks)]
    assert max(against_torch(theirs, fault, x).values()) > VISIBLE


def test_W12_gelu_is_the_exact_one(against_torch: Any) -> None:
    x = np.linspace(-4, 4, 41)
    assert max(against_torch(F.gelu, partial(jax.nn.gelu, approximate=False), x).values()) <= OUTPUT
    assert against_torch(F.gelu, jax.nn.gelu, x)["output"] > 1e-5
    # torch's word for "exact" is true as a condition.
    assert against_torch(F.gelu, partial(jax.nn.gelu, approximate="none"), x)["output"] > 1e-5


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_and_kin_along_an_axis(name: str, dim: int, against_torch: Any) -> None:
    x = 30 * np.random.default_rng(0).normal(size=(3, 4, 5))
    seen = against_torch(partial(getattr(F, name), dim=dim), partial(getattr(ours, name), dim=dim), x)
    assert max(seen.values()) <= 1e-13
    another = against_torch(partial(getattr(F, name), dim=dim), partial(getattr(ours, name), dim=(dim + 1) % 3), x)
    assert max(another.values()) > VISIBLE


def test_a_random_slope_for_each_element_is_a_leaky_relus(against_torch: Any) -> None:
    """RReLU in training, with torch's own slopes."""
    x = np.random.default_rng(0).normal(size=(40,))
    noise = torch.empty(40, dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        torch.ops.aten.rrelu_with_noise(torch.from_numpy(x), noise, 0.1, 0.4, True)
        seeded = partial(seeded_rrelu, seed=3)
        seen = against_torch(seeded, lambda x: ours.leaky_relu(x, jnp.asarray(noise.numpy())), x)
    assert max(seen.values()) <= OUTPUT


def seeded_rrelu(x: torch.Tensor, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return F.rrelu(x, 0.1, 0.4, training=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", [name for name, (_, function, _) in ACTIVATIONS.items()])
def test_the_dtype_is_kept(name: str, dtype: str, float64: None) -> None:
    _, function, _ = ACTIVATIONS[name]
    given = jax.ShapeDtypeStruct((4, 3), jnp.dtype(dtype))
    output, gradient = jax.eval_shape(lambda x: (function(x), jax.grad(lambda x: function(x).sum())(x)), given)
    assert output == gradient == given


def test_not_a_number_stays_one(float64: None) -> None:
    for name, (_, function, _) in ACTIVATIONS.items():
        assert np.isnan(function(jnp.array([np.nan, 1.0]))[0]), name


def test_a_negative_lambd_is_refused() -> None:
    with pytest.raises(UsageError, match="0 or more, got -1"):
        ours.softshrink(jnp.ones(3), -1)
