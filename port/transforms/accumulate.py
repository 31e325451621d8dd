"""Gradient accumulation with PyTorch's semantics: ``backward()`` several times, then one ``optimizer.step()``."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from port.errors import UsageError


class TorchAccumulationState(NamedTuple):
    """The state between two optimizer steps.

    Attributes:
        micro_step: int32 scalar, 0 … every − 1: the micro-batches in ``gradients``.
        gradients: like the parameters, in their dtypes: torch's ``.grad``, zero after an optimizer step.
        inner_state: the optimizer's state.
    """

    micro_step: jax.Array
    gradients: Any
    inner_state: Any


def accumulate_torch(
    optimizer: optax.GradientTransformation, every: jax.typing.ArrayLike, *, mean: bool = False
) -> optax.GradientTransformationExtraArgs:
    """Update with the optimizer once every ``every`` gradients, with their sum.

    In between, the updates are zero, and the optimizer's state does not change, including the counts of its schedules.
    This is torch's loop

        loss_function(model(x), y).backward()   # with mean=True: (loss_function(model(x), y) / every).backward()
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()

    The gradients are added in their own dtype and in order, as in ``.grad``. Extra arguments of ``update``
    (``value=…``) reach the optimizer in the step that it makes, and are ignored before.

    optax.MultiSteps averages by default; its sum (``use_grad_mean=False``) is kept in float32 by default, 7e-8 off for
    float64 parameters and not torch's rounding for bfloat16; it runs the optimizer at every micro-batch and discards
    the result; and after one infinite gradient its accumulator is NaN for ever, since it is reset by multiplying with
    0.

    Args:
        optimizer: any optax transformation.
        every: micro-batches a step, 1 or more.
        mean: divide each gradient by ``every`` before it is added.

    Raises:
        UsageError: ``every`` below 1.
    """
    if isinstance(every, int) and every < 1:
        raise UsageError(f"every must be at least 1 micro-batch, got {every}")
    optimizer = optax.with_extra_args_support(optimizer)

    def init(params: Any) -> TorchAccumulationState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return TorchAccumulationState(jnp.zeros([], jnp.int32), zeros, optimizer.init(params))

    def update(
        updates: Any, state: TorchAccumulationState, params: Any = None, **extra_args: Any
    ) -> tuple[Any, TorchAccumulationState]:
        def added(total: jax.Array, gradient: jax.Array) -> jax.Array:
            share = gradient / jnp.asarray(every, gradient.dtype) if mean else gradient
            return total + share.astype(total.dtype)

        gradients = jax.tree.map(added, state.gradients, updates)

        def step(gradients: Any, inner_state: Any) -> tuple[Any, Any, Any]:
            new_updates, new_state = optimizer.update(gradients, inner_state, params, **extra_args)
            new_state = jax.tree.map(_as, inner_state, new_state)
            return new_updates, jax.tree.map(jnp.zeros_like, gradients), new_state

        def wait(gradients: Any, inner_state: Any) -> tuple[Any, Any, Any]:
            shapes, _, _ = jax.eval_shape(step, gradients, inner_state)
            return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes), gradients, inner_state

        micro_step = state.micro_step + 1
        new_updates, gradients, inner_state = jax.lax.cond(
            micro_step >= every, step, wait, gradients, state.inner_state
        )
        return new_updates, TorchAccumulationState(micro_step % every, gradients, inner_state)

    return optax.GradientTransformationExtraArgs(init, update)


def _as(old: Any, new: Any) -> Any:
    """Cast the new state to the old one's dtypes, as a loop's carry requires."""
    return new if jnp.result_type(new) == jnp.result_type(old) else jnp.asarray(new, jnp.result_type(old))
