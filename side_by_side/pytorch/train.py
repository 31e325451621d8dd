"""The trainer in PyTorch. Alone:

    python -m side_by_side.pytorch.train --model convnet --optimizer adam --steps 100 --out runs/mine

`port train` runs it beside its JAX twin and compares what the two record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from port.data import Examples
from port.errors import UsageError
from port.random import dropout_key, shared_dropout
from port.records import layer_names, record_path
from port.weights import save_final_weights, share_initial_weights
from side_by_side.alone import run_alone
from side_by_side.config import Config
from side_by_side.pytorch.data import make_plan, read, test_batches, train_batches
from side_by_side.pytorch.model import build, cross_entropy
from side_by_side.pytorch.optimizer import clip_grad_norm, make_optimizer, make_schedule
from side_by_side.pytorch.own import build_own, draw_layouts
from side_by_side.pytorch.processes import check_the_others, joined
from side_by_side.pytorch.replicas import Batch, Replicas, Sizes

# %% A step


def loss_fn(model: nn.Module, batch: Batch, samples: float) -> Tensor:
    """A microbatch's losses over ``samples``; backward() adds its gradients up, running statistics change in passing.

    ``samples`` is a replica's equal part of the global batch, whatever the replica has: so the mean over the replicas
    of the sums over their microbatches is the batch's mean loss (D8, O18).
    """
    return cross_entropy(model(batch.images), batch.labels).sum() / samples


def accumulate(
    model: nn.Module, batches: list[Batch], key: Tensor, sizes: Sizes, replicas: Replicas, layouts: Sequence[Any] | None
) -> Tensor:
    """The loss, summed over the microbatches, and their gradients in the model; the last one's are every rank's."""
    losses = []
    for number, batch in enumerate(batches, start=1):
        drawn_for = None if batch.rows is None else sizes.masks
        with (
            shared_dropout(model, key, rows=batch.rows, batch_size=drawn_for, layouts=layouts),
            replicas.accumulating(model, last=number == len(batches)),
        ):
            loss = loss_fn(model, batch, sizes.batch / replicas.averaged)
            loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum()


def train_step(
    model: nn.Module,
    optimizer: Optimizer,
    schedule: LRScheduler,
    clip_norm: float | None,
    batches: list[Batch],
    key: Tensor,
    sizes: Sizes,
    replicas: Replicas,
    layouts: Sequence[Any] | None = None,
) -> dict[str, Tensor | float]:
    """One update, in place; what is worth recording of it. ``layouts``: of the masks, on the JAX side."""
    optimizer.zero_grad()
    loss = replicas.mean(accumulate(model, batches, replicas.key(key), sizes, replicas, layouts))
    grad_norm = replicas.whole(clip_grad_norm(model.parameters(), clip_norm))
    lr = schedule.get_last_lr()[0]
    optimizer.step()
    schedule.step()
    return {"loss": loss, "lr": lr, "grad_norm": grad_norm}


# %% Evaluation


@torch.no_grad()
def eval_step(model: nn.Module, images: Tensor, labels: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Summed loss and number of right answers over the batch's real samples."""
    logits = model(images)
    losses = torch.where(mask, cross_entropy(logits, labels), 0)
    return losses.sum(), (mask & (logits.argmax(1) == labels)).sum()


def evaluate(config: Config, model: nn.Module, examples: Examples, device: torch.device) -> dict[str, float]:
    """Mean loss and accuracy over the whole test split."""
    started = time.perf_counter()
    model.eval()
    loss = correct = torch.zeros((), device=device)
    for images, labels, mask in test_batches(config, examples):
        batch_loss, batch_correct = eval_step(model, images.to(device), labels.to(device), mask.to(device))
        loss, correct = loss + batch_loss, correct + batch_correct
    model.train()
    result = {"loss": loss.item() / len(examples), "accuracy": correct.item() / len(examples)}
    return {**result, "duration": time.perf_counter() - started}


# %% The run


def train(config: Config, precision: str) -> None:
    """The whole run in one precision: trains, evaluates after every epoch, records, saves the final weights."""
    examples, test_examples = read(config, train=True), read(config, train=False)
    plan = make_plan(config, examples)
    total_steps = config.total_steps(plan.batches_per_epoch)

    with joined(config, config.platform_for(precision)) as replicas, computing(config, precision) as device:
        model = build(config) if config.torch_model is None else build_own(config)
        share_initial_weights(model, config.file("initial.safetensors"))
        model.to(getattr(torch, precision)).train()
        layers = layer_names(model)

        path = record_path(config.file(precision, "torch.jsonl"))
        checkpoints, checkpoint = replicas.checkpoints, path.with_suffix(replicas.checkpoints.SUFFIX)
        first_step = (checkpoints.latest_step(checkpoint) if config.resume else None) or 0
        check_the_others(replicas, model, first_step)
        replicas.to_device(model, device)
        optimizer = make_optimizer(config, model.parameters())
        schedule = make_schedule(config, optimizer, total_steps)
        if first_step:
            checkpoints.restore_checkpoint(checkpoint, model, optimizer, schedule)
            if not replicas.is_sharded:  # each has read all of it by itself
                check_the_others(replicas, model, first_step)
        replicated = replicas.replicate(model)
        layouts = draw_layouts(config)

        share = replicas.share(plan, filled=False)
        about = {**describe(config, precision, device), "total_steps": total_steps}
        about["replicas"] = replicas.described("FSDP" if replicas.is_sharded else "DDP")
        about |= {"layers": layers, "criterion": "torch.nn.CrossEntropyLoss"}
        with (
            replicas.recorder(path, first_step, about) as record,
            replicas.heartbeat(path) as beat,
        ):
            batches = train_batches(config, examples, share, first_step)
            for step, (epoch, images, labels) in zip(range(first_step, total_steps), batches, strict=False):
                beat(step)
                key = dropout_key(config.seed, step, x64=precision == "float64")
                microbatches, sizes = replicas.place(images, labels, share.places(step), device)
                measured = train_step(
                    replicated, optimizer, schedule, config.clip_norm, microbatches, key, sizes, replicas, layouts
                )
                record(step, epoch=epoch, **measured)
                if ((step + 1) % plan.batches_per_epoch == 0 or step + 1 == total_steps) and replicas.takes_part:
                    record.evaluation(step, epoch=epoch, **evaluate(config, model, test_examples, device))
                if config.checkpoint_after(step) and replicas.takes_part:
                    record.flush()  # a checkpoint must not be ahead of its record
                    checkpoints.save_checkpoint(checkpoint, step + 1, model, optimizer, schedule)
        weights = {name: replicas.whole(tensor) for name, tensor in model.state_dict().items()}
        if replicas.leads:
            save_final_weights(weights, config.file(precision, "torch.safetensors"))


# %% Where and how it is computed


@contextmanager
def computing(config: Config, precision: str) -> Iterator[torch.device]:
    """The device to compute on, with float32 products as exact as the config wants them: no TF32 inside (G6).

    Raises:
        UsageError: a GPU was requested, but there is none.
    """
    wanted, there_is_one = config.device_for(precision), torch.cuda.is_available()
    if wanted == "gpu" and not there_is_one:
        raise UsageError("PyTorch sees no GPU here; choose --device auto or cpu (and --proof-device cpu)")
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    if config.matmul_precision_for(precision) == "highest":
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
    try:
        yield torch.device("cuda" if there_is_one and wanted != "cpu" else "cpu")
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def describe(config: Config, precision: str, device: torch.device) -> dict[str, Any]:
    """Where and how this run was computed, for the record."""
    return {
        "side": "torch",
        "precision": precision,
        "device": torch.cuda.get_device_name(device).lower() if device.type == "cuda" else "cpu",
        "matmul_precision": config.matmul_precision_for(precision),
        "framework": f"torch {torch.__version__}",
    }


if __name__ == "__main__":
    run_alone(train)
