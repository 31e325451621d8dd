"""torch.optim.Adafactor."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from port.transforms.leaves import map_leaves, required
from port.transforms.scalars import Number, learning_rate_at


class TorchAdafactorState(NamedTuple):
    """The state of `torch_adafactor`: `optax.MaskedNode()` where a leaf has no such array.

    A masked node has no leaves of its own: jit, scan and `optax.partition` pass over it.

    Attributes:
        count: int32 scalar, the steps done.
        row_var: (…, m, 1) for a leaf of shape (…, m, n): the decayed means of its squared gradients' rows.
        col_var: (…, 1, n): the decayed means of the columns.
        variance: of a vector's or a scalar's shape: the decayed mean of its squared gradients.
    """

    count: jax.Array  # type: ignore[assignment]  # tuple has a method of this name
    row_var: Any
    col_var: Any
    variance: Any


def torch_adafactor(
    learning_rate: optax.ScalarOrSchedule = 1e-2,
    beta2_decay: Number = -0.8,
    eps: tuple[Number | None, Number] = (None, 1e-3),
    d: Number = 1.0,
    weight_decay: Number = 0.0,
) -> optax.GradientTransformation:
    """torch.optim.Adafactor's whole update, including its sign, for parameters in torch's layout.

        w = t^beta2_decay,  α = max(eps₂, RMS(θ)) · min(lr, 1 / √t)
        R ← R + w · (mean(g², columns) − R),  C ← C + w · (mean(g², rows) − C),  V = R · C / max(mean(R), eps₁)
        V ← V + w · (g² − V)  for vectors and scalars
        U = g / √max(V, eps₁²),  update  −lr · weight_decay · θ − α · U / max(1, RMS(U) / d)

    Source: ``torch/optim/_adafactor.py``, ``_single_tensor_adafactor``, which documents how it differs from Shazeer and
    Stern (2018). `optax.adafactor` factors the two largest axes, and only those of 128 and more (5 % off after 60 steps
    of random gradients), decays by the weight decay alone, and has neither 1 / √t nor eps₁.

    The last two axes of a leaf are factored: in torch's layout a kernel's height and width.

    Args:
        learning_rate: a number, or a schedule of the count, which is 0 at torch's first step.
        beta2_decay: the power of t in the decay.
        eps: eps₁, and eps₂, the least size of a parameter. None is the machine epsilon of each leaf's dtype;
            torch takes that of a group's first parameter for the whole group.
        d: the largest RMS of an update.
        weight_decay: decoupled, times the learning rate.

    Raises:
        UsageError: from the update, without parameters.
    """
    eps1, eps2 = eps

    def init(params: Any) -> TorchAdafactorState:
        def row(leaf: jax.Array) -> Any:
            return jnp.zeros_like(leaf[..., :1]) if leaf.ndim > 1 else optax.MaskedNode()

        def column(leaf: jax.Array) -> Any:
            return jnp.zeros_like(leaf[..., :1, :]) if leaf.ndim > 1 else optax.MaskedNode()

        def whole(leaf: jax.Array) -> Any:
            return jnp.zeros_like(leaf) if leaf.ndim <= 1 else optax.MaskedNode()

        trees = (jax.tree.map(part, params) for part in (row, column, whole))
        return TorchAdafactorState(jnp.zeros((), jnp.int32), *trees)

    def update(gradients: Any, state: TorchAdafactorState, params: Any = None) -> tuple[Any, TorchAdafactorState]:
        rate = learning_rate_at(learning_rate, state.count)
        count = optax.safe_increment(state.count)
        steps = 1.0 * count  # an integer's root and powers would be float32 under x64 too
        weight = steps**beta2_decay
        relative_step = jnp.minimum(rate, 1 / jnp.sqrt(steps))

        def step(
            gradient: jax.Array, row: Any, column: Any, variance: Any, param: jax.Array, least: jax.Array
        ) -> tuple[Any, ...]:
            squared = gradient**2
            if gradient.ndim > 1:
                row = row + weight * (jnp.mean(squared, -1, keepdims=True) - row)
                column = column + weight * (jnp.mean(squared, -2, keepdims=True) - column)
                estimate = row * column / jnp.maximum(jnp.mean(row, -2, keepdims=True), least)
            else:
                estimate = variance = variance + weight * (squared - variance)
            scaled = gradient / jnp.sqrt(jnp.maximum(estimate, least**2))
            size = jnp.maximum(eps2, _root_mean_square(param)) * relative_step
            change = -size / jnp.maximum(1, _root_mean_square(scaled) / d) * scaled
            return change - rate * weight_decay * param, row, column, variance

        states = (state.row_var, state.col_var, state.variance)
        params = required(params, "torch_adafactor")
        floors = jax.tree.map(lambda leaf: jnp.asarray(jnp.finfo(leaf.dtype).eps if eps1 is None else eps1), params)
        updates, *factors = map_leaves(step, gradients, states, params, floors)
        return updates, TorchAdafactorState(count, *factors)

    return optax.GradientTransformation(init, update)


def _root_mean_square(leaf: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.mean(leaf**2))
