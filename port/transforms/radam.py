"""The direction of torch.optim.RAdam."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from port.transforms.leaves import map_leaves
from port.transforms.scalars import Number, bias_correction, log_decay


class TorchRadamState(NamedTuple):
    """The state of `scale_by_torch_radam`.

    Attributes:
        count: int32 scalar, the steps done.
        mu: the gradients' decayed mean (torch's ``exp_avg``), a tree like the parameters.
        nu: the decayed mean of their squares (``exp_avg_sq``).
    """

    count: jax.Array  # type: ignore[assignment]  # tuple has a method of this name
    mu: Any
    nu: Any


def scale_by_torch_radam(b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-8) -> optax.GradientTransformation:
    """torch.optim.RAdam's direction, to be followed by `optax.scale_by_learning_rate`.

        m ← b1 · m + (1 − b1) · g,  v ← b2 · v + (1 − b2) · g²
        ρ∞ = 2 / (1 − b2) − 1,  ρₜ = ρ∞ − 2t · b2ᵗ / (1 − b2ᵗ)
        direction  m / (1 − b1ᵗ) · √((ρₜ−4)(ρₜ−2)ρ∞ / ((ρ∞−4)(ρ∞−2)ρₜ)) · √(1 − b2ᵗ) / (√v + eps)  where ρₜ > 5,
        direction  m / (1 − b1ᵗ)  before

    Source: ``torch/optim/radam.py``, ``_single_tensor_radam``; Liu et al. (2020). `optax.scale_by_radam` adds eps to
    the corrected root: 3e-9 off after 60 steps of random gradients, 3e-4 with an eps of 1e-3.

    Args:
        b1: the decay of the first moment.
        b2: the decay of the second.
        eps: added to the root of the uncorrected second moment.
    """

    def init(params: Any) -> TorchRadamState:
        # Separate arrays: a state whose fields share arrays cannot be donated.
        zeros = partial(optax.tree.zeros_like, params)
        return TorchRadamState(count=jnp.zeros((), jnp.int32), mu=zeros(), nu=zeros())

    def update(gradients: Any, state: TorchRadamState, params: Any = None) -> tuple[Any, TorchRadamState]:
        count = optax.safe_increment(state.count)
        correction1, correction2 = bias_correction(b1, count), bias_correction(b2, count)
        longest, length = 2 / (1 - b2) - 1, moving_average_length(b2, count)
        tractable = length > 5
        squared = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        rectification = jnp.sqrt(jnp.where(tractable, squared, 1) * correction2)

        def step(gradient: jax.Array, mu: jax.Array, nu: jax.Array) -> tuple[jax.Array, ...]:
            mu = b1 * mu + (1 - b1) * gradient
            nu = b2 * nu + (1 - b2) * gradient**2
            return mu / correction1 * jnp.where(tractable, rectification / (jnp.sqrt(nu) + eps), 1), mu, nu

        directions, mu, nu = map_leaves(step, gradients, (state.mu, state.nu))
        return directions, TorchRadamState(count, mu, nu)

    return optax.GradientTransformation(init, update)


def moving_average_length(decay: Number, count: jax.Array) -> jax.Array:
    """ρₜ = 2 / (1 − b) − 1 − 2t · bᵗ / (1 − bᵗ), the length of the simple moving average equivalent to a decayed one.

    Both terms are near 2 / (1 − b), their difference near t: evaluated directly, float32 loses 1e-4 of it for
    b = 0.999, and for 0.9999 considers the fifth step tractable. With s = −log b and the Langevin function
    L(y) = coth y − 1/y it is  t · (1 − L(ts / 2)) + L(s / 2).

    Args:
        decay: b, in [0, 1).
        count: t, int32 scalar.
    """
    half = -log_decay(decay) / 2
    return count * _complement(count * half) + 1 - _complement(half)


def _complement(y: Number) -> jax.Array:
    """1 − L(y) for y > 0, L(y) = coth y − 1/y: by L's series where its two terms cancel."""
    series = y * (1 / 3 - y**2 * (1 / 45 - y**2 * (2 / 945 - y**2 * (1 / 4725 - y**2 * 2 / 93555))))
    y = jnp.asarray(y)
    return jnp.where(y < 0.1, 1 - series, 1 / y - 2 / jnp.expm1(2 * y))
