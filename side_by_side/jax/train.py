"""The trainer in JAX. Alone:

    python -m side_by_side.jax.train --model convnet --optimizer adam --steps 100 --out runs/mine

`port train` runs it beside its PyTorch twin and compares what the two record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from port.data import Examples
from port.errors import UsageError
from port.records import Recorder
from port.weights import find_initial_weights, load, save_final_weights
from side_by_side.alone import run_alone
from side_by_side.config import Config
from side_by_side.jax.data import make_plan, read, test_batches, train_batches
from side_by_side.jax.model import build, cross_entropy
from side_by_side.jax.optimizer import clip_grad_norm, make_optimizer, make_schedule


class TrainState(NamedTuple):
    """All that a step changes: PyTorch keeps it inside the model, the optimizer and the scheduler."""

    params: nnx.State
    stats: nnx.State
    opt_state: optax.OptState
    step: jax.Array


def loss_fn(
    params: nnx.State,
    stats: nnx.State,
    graphdef: nnx.GraphDef,
    images: jax.Array,
    labels: jax.Array,
    key: jax.Array,
) -> tuple[jax.Array, nnx.State]:
    """The mean loss, to be differentiated by ``params``, and the new running statistics beside it."""
    model = nnx.merge(graphdef, params, stats, copy=True)  # a copy: this trace may change it
    loss = cross_entropy(model(images, key), labels).mean()
    return loss, nnx.state(model, nnx.Not(nnx.Param))


@partial(jax.jit, static_argnames=("graphdef", "optimizer", "schedule", "clip_norm"), donate_argnames=("state",))
def train_step(
    state: TrainState,
    images: jax.Array,
    labels: jax.Array,
    key: jax.Array,
    *,
    graphdef: nnx.GraphDef,
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule,
    clip_norm: float | None,
) -> tuple[TrainState, dict[str, jax.Array]]:
    """One update: the state is donated, its successor returned; what is worth recording of it."""
    key = jax.random.fold_in(key, state.step)
    value_and_grad = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, stats), gradients = value_and_grad(state.params, state.stats, graphdef, images, labels, key)
    gradients, grad_norm = clip_grad_norm(gradients, clip_norm)
    lr = schedule(state.step)
    updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    measured = {"loss": loss, "lr": jnp.asarray(lr), "grad_norm": grad_norm}
    return TrainState(params, stats, opt_state, state.step + 1), measured


@partial(jax.jit, static_argnames=("graphdef",))
def eval_step(
    params: nnx.State,
    stats: nnx.State,
    images: jax.Array,
    labels: jax.Array,
    mask: jax.Array,
    key: jax.Array,
    *,
    graphdef: nnx.GraphDef,
) -> tuple[jax.Array, jax.Array]:
    """Summed loss and number of right answers over the batch's real samples."""
    logits = nnx.merge(graphdef, params, stats)(images, key)
    losses = jnp.where(mask, cross_entropy(logits, labels), 0)
    return losses.sum(), (mask & (logits.argmax(1) == labels)).sum()


def evaluate(
    config: Config, graphdef: nnx.GraphDef, state: TrainState, examples: Examples, key: jax.Array
) -> dict[str, float]:
    """Mean loss and accuracy over the whole test split."""
    jax.block_until_ready(state)  # so that the time below is the evaluation's own
    started = time.perf_counter()
    loss = correct = jnp.zeros(())
    for images, labels, mask in test_batches(config, examples):
        batch_loss, batch_correct = eval_step(state.params, state.stats, images, labels, mask, key, graphdef=graphdef)
        loss, correct = loss + batch_loss, correct + batch_correct
    result = {"loss": loss.item() / len(examples), "accuracy": correct.item() / len(examples)}
    return {**result, "duration": time.perf_counter() - started}


def train(config: Config, precision: str) -> None:
    """The whole run in one precision: trains, evaluates after every epoch, records, saves the final weights."""
    examples, test_examples = read(config, train=True), read(config, train=False)
    plan = make_plan(config, examples)
    total_steps = config.total_steps(plan.batches_per_epoch)

    with computing(config, precision) as device:
        model = build(config, jnp.dtype(precision))
        initial = find_initial_weights(config.file("initial.safetensors"))
        if initial is not None:
            load(model, initial)
        # Split once: from here on the model is data, and the steps are pure functions of it.
        model.train()
        graphdef, params, stats = nnx.split(model, nnx.Param, ...)  # type: ignore[misc]  # as nnx documents it
        model.eval()
        eval_graphdef = nnx.graphdef(model)

        schedule = make_schedule(config, total_steps)
        optimizer = make_optimizer(config, schedule, model)
        state = TrainState(params, stats, optimizer.init(params), jnp.zeros((), jnp.int32))
        key = jax.random.key(config.seed)
        static = {"graphdef": graphdef, "optimizer": optimizer, "schedule": schedule, "clip_norm": config.clip_norm}

        about = describe(config, precision, device)
        with Recorder(config.file(precision, "jax.jsonl"), total_steps=total_steps, **about) as record:
            batches = train_batches(config, examples, plan)
            for step, (epoch, images, labels) in zip(range(total_steps), batches, strict=False):
                state, measured = train_step(state, images, labels, key, **static)
                record(step, epoch=epoch, **measured)
                if (step + 1) % plan.batches_per_epoch == 0 or step + 1 == total_steps:
                    evaluated = evaluate(config, eval_graphdef, state, test_examples, key)
                    record.evaluation(step, epoch=epoch, **evaluated)
        model = nnx.merge(graphdef, state.params, state.stats)
        save_final_weights(model, config.file(precision, "jax.safetensors"))


@contextmanager
def computing(config: Config, precision: str) -> Iterator[jax.Device]:
    """The device to compute on, with float32 products as exact as the config wants them: no TF32 inside (G6).

    float64 exists only under x64, and each of these settings ends with the block.

    Raises:
        UsageError: a GPU was asked for and there is none.
    """
    wanted = config.device_for(precision)
    try:
        device = jax.devices(None if wanted == "auto" else wanted)[0]
    except RuntimeError:
        raise UsageError("JAX sees no GPU here; take --device auto or cpu (and --proof-device cpu)") from None
    exact = "highest" if config.matmul_precision_for(precision) == "highest" else None
    with jax.enable_x64(precision == "float64"), jax.default_device(device), jax.default_matmul_precision(exact):
        yield device


def describe(config: Config, precision: str, device: jax.Device) -> dict[str, Any]:
    """What the record says of where and how this run was computed."""
    return {
        "side": "jax",
        "precision": precision,
        "device": device.device_kind.lower(),
        "matmul_precision": config.matmul_precision_for(precision),
        "framework": f"jax {jax.__version__}",
    }


if __name__ == "__main__":
    run_alone(train)
