"""torch.optim.ASGD: averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from port.transforms.leaves import map_leaves, required
from port.transforms.scalars import Number, learning_rate_at


class TorchAsgdState(NamedTuple):
    """The state of `torch_asgd`.

    Attributes:
        count: int32 scalar, the steps done.
        eta: float32 scalar, the step size of the next step. A state with another dtype keeps it:
            torch's is a float32 even for float64 parameters, unless its default dtype is another; ``mu`` likewise.
        mu: float32 scalar, the next parameters' weight in the average.
        ax: the averaged parameters, a tree like the parameters; 0 before the first step.
    """

    count: jax.Array  # type: ignore[assignment]  # tuple has a method of this name
    eta: jax.Array
    mu: jax.Array
    ax: Any


def torch_asgd(
    learning_rate: optax.ScalarOrSchedule = 1e-2,
    lambd: Number = 1e-4,
    alpha: Number = 0.75,
    t0: Number = 1e6,
) -> optax.GradientTransformation:
    """torch.optim.ASGD's whole update, including its sign; optax has none.

        θ ← θ · (1 − lambd · η) − η · g
        a ← θ where μ = 1, else a + μ · (θ − a)
        η ← lr / (1 + lambd · lr · t)^alpha,  μ ← 1 / max(1, t − t0)      (of the next step; at first lr and 1)

    Source: ``torch/optim/asgd.py``, ``_single_tensor_asgd``; Polyak and Juditsky (1992). The step size was computed by
    the step before: a scheduled learning rate acts one step late, the first one twice.

    ``ax`` averages ``params + update``: if other transformations follow this one, it is no longer the average of the
    actual parameters.

    Args:
        learning_rate: a number, or a schedule of the count, which is 0 at torch's first step.
        lambd: the decay of the parameters.
        alpha: the power of the step size's decay.
        t0: the step at which averaging begins.

    Raises:
        UsageError: from the update, without parameters.
    """

    def init(params: Any) -> TorchAsgdState:
        count = jnp.zeros((), jnp.int32)
        eta = jnp.asarray(learning_rate_at(learning_rate, count), jnp.float32)
        return TorchAsgdState(count, eta, mu=jnp.ones((), jnp.float32), ax=optax.tree.zeros_like(params))

    def update(gradients: Any, state: TorchAsgdState, params: Any = None) -> tuple[Any, TorchAsgdState]:
        def step(gradient: jax.Array, average: jax.Array, param: jax.Array) -> tuple[jax.Array, jax.Array]:
            change = -state.eta * (lambd * param + gradient)
            moved = param + change
            return change, jnp.where(state.mu == 1, moved, average + state.mu * (moved - average))

        updates, ax = map_leaves(step, gradients, (state.ax,), required(params, "torch_asgd"))
        rate = learning_rate_at(learning_rate, state.count)
        count = optax.safe_increment(state.count)
        eta = rate / (1 + lambd * rate * count) ** alpha
        mu = 1 / jnp.maximum(1.0, count - t0)
        return updates, TorchAsgdState(count, eta.astype(state.eta.dtype), mu.astype(state.mu.dtype), ax)

    return optax.GradientTransformation(init, update)
