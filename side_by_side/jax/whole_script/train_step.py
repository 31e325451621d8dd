"""One update of whole_script.py in JAX: a batch's loss, its gradients, and the optimizer's step.

    graphdef, state = create(load())                        # the original's initial weights
    state, loss = train_step(graphdef, state, images, labels)

The same in PyTorch, up to the loss, is in torch_loss.py.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import jax
import optax
from flax import nnx
from model import load
from port import transforms
from port.nn import shared_masks

__all__ = ["State", "create", "load", "make_optimizer", "train_step"]


class State(NamedTuple):
    """What an update changes: trained parameters; running statistics and random streams; the optimizer's state."""

    params: Any
    rest: Any
    opt_state: Any


def make_optimizer(lr: float = 0.003, weight_decay: float = 0.05, T_max: int = 46) -> optax.GradientTransformation:
    """AdamW, lr 0.003, betas (0.9, 0.999), weight_decay 0.05 | lr 0.003, betas (0.9, 0.999).

    As at whole_script.py:82.
    """
    return optax.chain(
        transforms.clip_by_torch_norm(1.0),
        optax.partition(
            {
                "group 0": optax.adamw(
                    transforms.cosine_annealing_lr(lr, T_max=T_max, eta_min=0.0), weight_decay=weight_decay
                ),
                "group 1": optax.adamw(transforms.cosine_annealing_lr(lr, T_max=T_max, eta_min=0.0), weight_decay=0.0),
            },
            transforms.labels_by_path(
                {
                    "group 0": ["model.conv1.kernel", "model.conv2.kernel", "model.head.kernel"],
                    "group 1": [
                        "model.conv1.bias",
                        "model.conv2.bias",
                        "model.norm.scale",
                        "model.norm.bias",
                        "model.head.bias",
                    ],
                },
            ),
        ),
    )


def create(model: nnx.Module) -> tuple[Any, State]:
    """The model's structure, and the state before the first update."""
    model.train()
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)
    rest = jax.tree.map(jax.numpy.copy, rest)  # layers may share a stream's counter, which is donated
    return graphdef, State(params, rest, make_optimizer().init(params))


@partial(jax.jit, static_argnums=0, static_argnames=("lr", "weight_decay", "T_max"), donate_argnums=1)
def train_step(
    graphdef: Any,
    state: State,
    images: jax.Array,
    labels: jax.Array,
    *,
    masks: jax.Array | None = None,
    lr: float = 0.003,
    weight_decay: float = 0.05,
    T_max: int = 46,
) -> tuple[State, jax.Array]:
    """One update: the state after it, and the loss before it.

    Dropout is drawn from ``masks``, a key, if given.
    """

    def loss_fn(params: Any, rest: Any, masks: Any, images: jax.Array, labels: jax.Array) -> Any:
        model = nnx.merge(graphdef, params, rest, copy=True)
        with shared_masks(model, masks) if masks is not None else nullcontext():
            loss = model(images, labels)
        return loss, nnx.state(model, nnx.Not(nnx.Param))

    loss_and_grad = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, rest), gradients = loss_and_grad(state.params, state.rest, masks, images, labels)
    updates, opt_state = make_optimizer(lr, weight_decay, T_max).update(gradients, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    return State(params, rest, opt_state), loss
