"""A user's own training script, in JAX, made comparable. With its PyTorch twin, and a verdict:

    port train --torch-script side_by_side/pytorch/script.py --jax-script side_by_side/jax/script.py -- --steps 200

The lines that make it comparable say `port`: the rest is any script.
"""

from __future__ import annotations

import argparse
from typing import Any

import grain
import jax
import optax
from flax import nnx

import port

# %% A model


class Net(nnx.Module):
    """64 → 128 → 10, with dropout between."""

    def __init__(self, *, param_dtype: Any, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(64, 128, param_dtype=param_dtype, rngs=rngs)
        self.dropout = nnx.Dropout(0.2)
        self.out = nnx.Linear(128, 10, param_dtype=param_dtype, rngs=rngs)

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        x = jax.nn.gelu(self.hidden(x), approximate=False)  # torch's gelu is erf's (W12)
        return self.out(self.dropout(x, rngs=jax.random.fold_in(key, 0)))


# %% The run


def main(steps: int, lr: float, precision: str) -> None:
    """Train for some steps and record every one of them."""
    jax.config.update("jax_enable_x64", precision == "float64")
    digits = port.data.load_examples("digits", train=True)
    plan = port.IndexPlan(len(digits), batch_size=32, seed=1)  # the order, shared

    model = Net(param_dtype=precision, rngs=nnx.Rngs(0))
    port.load(model, port.initial_weights())  # what the PyTorch script shared
    graphdef: Any
    graphdef, params = nnx.split(model, nnx.Param)
    optimizer = optax.adamw(lr, weight_decay=1e-2)
    opt_state = optimizer.init(params)

    @jax.jit
    def train_step(params: Any, opt_state: Any, images: jax.Array, labels: jax.Array, key: jax.Array) -> Any:
        def loss_fn(params: Any) -> jax.Array:
            x = images.reshape(len(images), -1).astype(precision) / 255
            logits = nnx.merge(graphdef, params)(x, key)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        loss, gradients = jax.value_and_grad(loss_fn)(params)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    step = 0
    with port.Recorder(total_steps=steps) as record:  # what the verdict compares
        for epoch in range(-(-steps // plan.batches_per_epoch)):
            source = port.PlanSource(digits, plan, epoch)
            for images, labels in grain.MapDataset.source(source).batch(plan.batch_size):
                if step == steps:
                    break
                key = jax.random.fold_in(jax.random.key(0), step)  # as port.dropout_key(0, step)
                params, opt_state, loss = train_step(params, opt_state, images, labels, key)
                record(step, epoch=epoch, loss=loss)
                step += 1
    port.save_final_weights(nnx.merge(graphdef, params))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--precision", choices=["float64", "float32"], default="float64")
    try:
        main(**vars(parser.parse_args()))
    except port.errors.NoLauncher as error:
        parser.exit(2, f"{error}\n")
