"""The trainer in JAX. Alone:

    python -m side_by_side.jax.train --model convnet --optimizer adam --steps 100 --out runs/mine

`port train` runs it beside its PyTorch twin and compares what the two record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from port.data import Examples
from port.nn import DropoutMasks
from port.records import record_path
from port.weights import find_initial_weights, load, save_final_weights
from side_by_side.alone import run_alone
from side_by_side.config import Config
from side_by_side.jax.data import make_plan, read, test_batches, train_batches
from side_by_side.jax.model import build, cross_entropy
from side_by_side.jax.optimizer import clip_grad_norm, make_optimizer, make_schedule
from side_by_side.jax.own import build_own, mapping_beside
from side_by_side.jax.processes import check_the_others, joined, local_devices
from side_by_side.jax.replicas import Batch, Replicas, Sizes

# %% A step


class TrainState(NamedTuple):
    """All that a step changes: PyTorch keeps it inside the model, the optimizer and the scheduler."""

    params: nnx.State
    stats: nnx.State
    opt_state: optax.OptState
    step: jax.Array


def loss_fn(
    params: nnx.State, stats: nnx.State, graphdef: nnx.GraphDef, batch: Batch, masks: DropoutMasks, samples: float
) -> tuple[jax.Array, nnx.State]:
    """A microbatch's losses over ``samples``, to be differentiated by ``params``; the new running statistics beside it.

    ``samples`` is a replica's equal part of the global batch, whatever the replica has: so the mean over the replicas
    of the sums over their microbatches is the batch's mean loss (D8, O18).
    """
    model = nnx.merge(graphdef, params, stats, copy=True)  # a copy: this trace may change it
    losses = cross_entropy(model(batch.images, masks, batch.real), batch.labels)
    return losses.sum(where=batch.real) / samples, nnx.state(model, nnx.Not(nnx.Param))


def accumulate(
    params: nnx.State,
    stats: nnx.State,
    graphdef: nnx.GraphDef,
    batch: Batch,
    key: jax.Array,
    sizes: Sizes,
    replicas: Replicas,
) -> tuple[tuple[jax.Array, nnx.State], nnx.State]:
    """Loss and gradients, summed over the microbatches; running statistics go from each to the next."""
    value_and_grad = jax.value_and_grad(loss_fn, has_aux=True)

    def one(stats: nnx.State, microbatch: Batch) -> tuple[tuple[jax.Array, nnx.State], nnx.State]:
        masks = DropoutMasks(key, microbatch.rows, None if microbatch.rows is None else sizes.masks)
        value, gradients = value_and_grad(params, stats, graphdef, microbatch, masks, sizes.batch / replicas.averaged)
        return value, replicas.part(gradients)

    def add(total: Any, microbatch: Batch) -> tuple[Any, None]:
        (loss, stats), gradients = total
        (more, stats), new = one(stats, microbatch)
        return ((loss + more, stats), jax.tree.map(jnp.add, gradients, new)), None

    first, others = (jax.tree.map(itemgetter(place), batch) for place in (0, slice(1, None)))
    total = one(stats, first)
    return jax.lax.scan(add, total, others)[0] if len(batch.labels) > 1 else total


def train_step(
    state: TrainState,
    batch: Batch,
    key: jax.Array,
    sizes: Sizes,
    *,
    graphdef: nnx.GraphDef,
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule,
    clip_norm: float | None,
    replicas: Replicas,
) -> tuple[TrainState, dict[str, jax.Array]]:
    """One update: the state's successor, and what is worth recording. Pure; the replicas' form compiles it."""
    key = replicas.key(jax.random.fold_in(key, state.step))
    params, stats = replicas.local((state.params, state.stats))
    (loss, stats), gradients = accumulate(params, stats, graphdef, batch, key, sizes, replicas)
    loss, gradients = replicas.mean((loss, gradients))
    gradients, grad_norm = clip_grad_norm(gradients, clip_norm)
    lr = schedule(state.step)
    updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    measured = {"loss": loss, "lr": jnp.asarray(lr), "grad_norm": grad_norm}
    return TrainState(params, replicas.first(stats), opt_state, state.step + 1), measured


# %% Evaluation


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
    logits = nnx.merge(graphdef, params, stats)(images, DropoutMasks(key))
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


# %% The run


def train(config: Config, precision: str) -> None:
    """The whole run in one precision: trains, evaluates after every epoch, records, saves the final weights."""
    examples, test_examples = read(config, train=True), read(config, train=False)
    plan = make_plan(config, examples)
    total_steps = config.total_steps(plan.batches_per_epoch)

    with joined(config, config.platform_for(precision)) as replicas, computing(config, precision) as device:
        maker = build if config.jax_model is None else build_own
        model = maker(config, jnp.dtype(precision))
        initial = find_initial_weights(config.file("initial.safetensors"))
        if initial is not None:
            load(model, initial, rename=mapping_beside(config))
        # Split once: from here on the model is data, and the steps are pure functions of it.
        model.train()
        graphdef, params, stats = nnx.split(model, nnx.Param, ...)  # type: ignore[misc]  # as nnx documents it
        model.eval()
        eval_graphdef = nnx.graphdef(model)

        schedule = make_schedule(config, total_steps)
        optimizer = make_optimizer(config, schedule, model)
        state = TrainState(params, stats, optimizer.init(params), jnp.zeros((), jnp.int32))

        path = record_path(config.file(precision, "jax.jsonl"))
        checkpoints, checkpoint = replicas.checkpoints, path.with_suffix(replicas.checkpoints.SUFFIX)
        first_step = (checkpoints.latest_step(checkpoint) if config.resume else None) or 0
        check_the_others(replicas, (state.params, state.stats), first_step)
        if replicas.is_sharded:  # a process reads its own part
            state = replicas.replicate(state)
        if first_step:
            _, state = checkpoints.restore_checkpoint(checkpoint, state)
        if not replicas.is_sharded:  # or all of it, and by itself
            if first_step:
                check_the_others(replicas, (state.params, state.stats), first_step)
            state = replicas.replicate(state)

        key = jax.random.key(config.seed)
        static = {"graphdef": graphdef, "optimizer": optimizer, "schedule": schedule, "clip_norm": config.clip_norm}
        update = replicas.compile(partial(train_step, **static, replicas=replicas), state)

        share = replicas.share(plan, filled=True)  # shards of an array have one size
        about = {**describe(config, precision, device), "total_steps": total_steps}
        about["replicas"] = replicas.described(config.parallel)
        with (
            replicas.recorder(path, first_step, about) as record,
            replicas.heartbeat(path) as beat,
        ):
            batches = train_batches(config, examples, share, first_step)
            for step, (epoch, images, labels) in zip(range(first_step, total_steps), batches, strict=False):
                beat(step)
                batch, sizes = replicas.place(images, labels, share.places(step))
                state, measured = update(state, batch, key, sizes)
                record(step, epoch=epoch, **measured)
                replicas.finish(measured)
                if ((step + 1) % plan.batches_per_epoch == 0 or step + 1 == total_steps) and replicas.takes_part:
                    evaluated = evaluate(config, eval_graphdef, replicas.one(state), test_examples, key)
                    record.evaluation(step, epoch=epoch, **evaluated)
                if config.checkpoint_after(step) and replicas.takes_part:
                    record.flush()  # a checkpoint must not be ahead of its record
                    checkpoints.save_checkpoint(checkpoint, step + 1, replicas.one(state))
        state = replicas.whole(state)
        if replicas.leads:
            model = nnx.merge(graphdef, state.params, state.stats)
            mapping = mapping_beside(config)
            save_final_weights(model, config.file(precision, "jax.safetensors"), mapping=mapping)


# %% Where and how it is computed


@contextmanager
def computing(config: Config, precision: str) -> Iterator[jax.Device]:
    """The device to compute on, with float32 products as exact as the config wants them: no TF32 inside (G6).

    float64 exists only under x64, and each of these settings ends with the block.

    Raises:
        UsageError: a GPU was requested, but there is none.
    """
    device = local_devices(config.platform_for(precision))[0]
    exact = "highest" if config.matmul_precision_for(precision) == "highest" else None
    with jax.enable_x64(precision == "float64"), jax.default_device(device), jax.default_matmul_precision(exact):
        yield device


def describe(config: Config, precision: str, device: jax.Device) -> dict[str, Any]:
    """Where and how this run was computed, for the record."""
    return {
        "side": "jax",
        "precision": precision,
        "device": device.device_kind.lower(),
        "matmul_precision": config.matmul_precision_for(precision),
        "framework": f"jax {jax.__version__}",
    }


if __name__ == "__main__":
    run_alone(train)
