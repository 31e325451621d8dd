"""The direction of torch.optim.NAdam."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from port.transforms.leaves import map_leaves
from port.transforms.scalars import Number, bias_correction


class TorchNadamState(NamedTuple):
    """The state of `scale_by_torch_nadam`.

    Attributes:
        count: int32 scalar, the steps done.
        mu_product: float32 scalar, μ₁ · … · μₜ. A state with another dtype keeps it: torch's is a
            float32 even for float64 parameters, unless its default dtype is another.
        mu: the gradients' decayed mean (torch's ``exp_avg``), a tree like the parameters.
        nu: the decayed mean of their squares (``exp_avg_sq``).
    """

    count: jax.Array  # type: ignore[assignment]  # tuple has a method of this name
    mu_product: jax.Array
    mu: Any
    nu: Any


def scale_by_torch_nadam(
    b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-8, momentum_decay: Number = 4e-3
) -> optax.GradientTransformation:
    """torch.optim.NAdam's direction, to be followed by `optax.scale_by_learning_rate`.

        μₜ = b1 · (1 − ½ · 0.96^(t · momentum_decay))
        m ← b1 · m + (1 − b1) · g,  v ← b2 · v + (1 − b2) · g²
        direction  ((1 − μₜ) / (1 − μ₁…μₜ) · g + μₜ₊₁ / (1 − μ₁…μₜ₊₁) · m) / (√(v / (1 − b2ᵗ)) + eps)

    Source: ``torch/optim/nadam.py``, ``_single_tensor_nadam``, which follows Dozat (2016) with its schedule of the
    momentum. `optax.scale_by_adam` with ``nesterov=True`` has a constant momentum: 15 % off after 60 steps of
    random gradients.

    Args:
        b1: the decay of the first moment.
        b2: the decay of the second.
        eps: added to the root.
        momentum_decay: how fast μ rises from b1 / 2 to b1.
    """

    def momentum(step: jax.Array) -> jax.Array:
        return b1 * (1 - 0.5 * 0.96 ** (step * momentum_decay))

    def init(params: Any) -> TorchNadamState:
        # Separate arrays: a state whose fields share arrays cannot be donated.
        zeros = partial(optax.tree.zeros_like, params)
        return TorchNadamState(
            count=jnp.zeros((), jnp.int32), mu_product=jnp.ones((), jnp.float32), mu=zeros(), nu=zeros()
        )

    def update(gradients: Any, state: TorchNadamState, params: Any = None) -> tuple[Any, TorchNadamState]:
        count = optax.safe_increment(state.count)
        now, next = momentum(count), momentum(count + 1)
        mu_product = state.mu_product * now.astype(state.mu_product.dtype)
        # From here on in the precision of the momentum, like torch's Python floats.
        product = mu_product.astype(now.dtype)
        of_gradient, of_mean = (1 - now) / (1 - product), next / (1 - product * next)
        correction2 = bias_correction(b2, count)

        def step(gradient: jax.Array, mu: jax.Array, nu: jax.Array) -> tuple[jax.Array, ...]:
            mu = b1 * mu + (1 - b1) * gradient
            nu = b2 * nu + (1 - b2) * gradient**2
            return (of_gradient * gradient + of_mean * mu) / (jnp.sqrt(nu / correction2) + eps), mu, nu

        directions, mu, nu = map_leaves(step, gradients, (state.mu, state.nu))
        return directions, TorchNadamState(count, mu_product, mu, nu)

    return optax.GradientTransformation(init, update)
