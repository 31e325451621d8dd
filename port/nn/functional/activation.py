"""Activations that jax.nn lacks, or whose gradient at a kink differs from torch's.

Each works element by element on an array of any shape and float dtype, and keeps shape and dtype; softmax, log_softmax
and softmin work along one axis. Formulas and defaults: the documentation of torch.nn's class of the same name;
gradients at kinks were measured. NaN stays NaN.

For the others use jax.nn's own: relu, relu6, elu, selu, silu, mish, gelu (``approximate=False`` is torch's default),
glu, sigmoid, tanh, log_sigmoid, soft_sign, hard_swish agree with torch's in value and gradient, at their kinks too.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError


def hardtanh(input: jax.Array, min_val: float = -1.0, max_val: float = 1.0) -> jax.Array:
    """Clip ``input`` to two edges. The gradient at an edge is 0; `jax.nn.hard_tanh` has 1 there, `jnp.clip` ½."""
    return jnp.where(input <= min_val, min_val, jnp.where(input >= max_val, max_val, input))


def leaky_relu(input: jax.Array, negative_slope: float | jax.Array = 0.01) -> jax.Array:
    """x where x > 0, else negative_slope · x, with one slope or one for each element.

    The gradient at 0 is the slope; that of `jax.nn.leaky_relu` is 1.
    """
    return jnp.where(input > 0, input, negative_slope * input)


def threshold(input: jax.Array, threshold: float, value: float) -> jax.Array:
    """x where x > threshold, else ``value``."""
    return jnp.where(input <= threshold, value, input)


def hardshrink(input: jax.Array, lambd: float = 0.5) -> jax.Array:
    """x where |x| > lambd, else 0."""
    return jnp.where((input >= -lambd) & (input <= lambd), 0, input)


def softshrink(input: jax.Array, lambd: float = 0.5) -> jax.Array:
    """Shrink x towards 0 by ``lambd``, at most to 0.

    Raises:
        UsageError: a negative ``lambd``, an error in torch too.
    """
    if lambd < 0:
        raise UsageError(f"softshrink takes a lambd of 0 or more, got {lambd}")
    return jnp.where((input >= -lambd) & (input <= lambd), 0, input - jnp.sign(input) * lambd)


def tanhshrink(input: jax.Array) -> jax.Array:
    """x − tanh(x)."""
    return input - jnp.tanh(input)


def softplus(input: jax.Array, beta: float = 1.0, threshold: float = 20.0) -> jax.Array:
    """ln(1 + exp(beta · x)) / beta, and x itself where beta · x > threshold; `jax.nn.softplus` has neither."""
    scaled = beta * input
    linear = scaled > threshold
    # The branch that is not taken must not overflow: its gradient, 0 · ∞, would be NaN.
    return jnp.where(linear, input, jax.nn.softplus(jnp.where(linear, 0, scaled)) / beta)


@jax.custom_jvp
def hardsigmoid(input: jax.Array) -> jax.Array:
    """x / 6 + ½ between 0 and 1. torch's slope is ⅙ in float32 for every dtype, 3e-8 from `jax.nn.hard_sigmoid`'s."""
    return jax.nn.hard_sigmoid(input)


@hardsigmoid.defjvp
def _hardsigmoid_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (tangent,) = primals, tangents
    slope = jnp.where((x > -3) & (x < 3), np.float32(1 / 6), np.float32(0))
    return hardsigmoid(x), tangent * slope.astype(tangent.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def celu(input: jax.Array, alpha: float = 1.0) -> jax.Array:
    """x where x > 0, else alpha · (exp(x / alpha) − 1).

    The value is that of `jax.nn.celu`. In its gradient torch takes 1 / alpha from alpha's float32, which shows in
    float64 (2e-8 at 0.7) unless alpha is a float32 number.
    """
    return jax.nn.celu(input, alpha)


@celu.defjvp
def _celu_jvp(alpha: float, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (tangent,) = primals, tangents
    inverse = 1 / float(np.float32(alpha))
    slope = jnp.where(x > 0, 1, alpha * inverse * jnp.exp(jnp.minimum(x, 0) * inverse))
    return celu(x, alpha), tangent * slope


def softmax(input: jax.Array, dim: int | None = None) -> jax.Array:
    """exp(x) / Σ exp(x) along ``dim``; None is torch's legacy default: 0 for 0, 1 or 3 dimensions, else 1."""
    return jax.nn.softmax(input, axis=_dim(input, dim))


def log_softmax(input: jax.Array, dim: int | None = None) -> jax.Array:
    """ln softmax(x) along ``dim``; None as in `softmax`."""
    return jax.nn.log_softmax(input, axis=_dim(input, dim))


def softmin(input: jax.Array, dim: int | None = None) -> jax.Array:
    """softmax(−x) along ``dim``; None as in `softmax`."""
    return jax.nn.softmax(-input, axis=_dim(input, dim))


def _dim(input: jax.Array, dim: int | None) -> int | tuple[()]:
    if input.ndim == 0:
        return ()  # torch accepts dim 0 and −1 for a 0-d tensor
    if dim is None:
        return 0 if input.ndim in (1, 3) else 1
    return dim
