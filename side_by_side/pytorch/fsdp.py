"""Fully sharded data parallelism in PyTorch: replicas share the state, too. Alone, or by torchrun:

    python -m side_by_side.pytorch.fsdp --replicas 4
    torchrun --nproc-per-node 4 -m side_by_side.pytorch.fsdp

Its JAX twin prints the same numbers. `parallel.py` shows what data parallelism is.

Under DDP every replica holds all parameters, gradients and moments. Here it holds 1/N of each:

| | DDP | fully_shard |
|---|---|---|
| before a layer computes | nothing | all-gather of its parameters, forward and again backward |
| after its backward pass | all-reduce of its gradients | reduce-scatter: each replica has the mean of its part |
| the update | of everything, the same on every replica | of its part alone |
| the norm to clip by | of what the replica has | of all parts: their squares are summed up |
| sent, for P parameters | about 2 P: an all-reduce scatters and gathers | about 3 P: scattered once, gathered twice |
| held between two updates, under Adam | 4 P, by each of N | 4 P / N |
| held besides, within one | activations | and one layer's parameters whole, or its gradients |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from side_by_side.pytorch.parallel import (
    by_replica,
    draw,
    launch,
    leave,
    loss_fn,
    make_mesh,
    show,
    show_by_replica,
    start,
)

FEATURES, HIDDEN, SAMPLES = 12, 24, 4  # SAMPLES on each replica
LR, UPDATES, CLIP = 0.1, 3, 0.5


# %% A model of two layers


class Layer(nn.Module):
    """A matrix."""

    def __init__(self, rows: int, columns: int, seed: int) -> None:
        super().__init__()
        self.w = nn.Parameter(draw(rows, columns, seed=seed) / rows**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w


class Net(nn.Module):
    """features → hidden → 1."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Layer(FEATURES, HIDDEN, seed=1)
        self.last = Layer(HIDDEN, 1, seed=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)))


# %% Who holds what


def shard(model: Net, replicas: int) -> Net:
    """Shard every matrix by rows over the replicas, in place: parameters are DTensors from here on.

    What one call is given is gathered at a time: a layer here, a block of a large model; the last one stays with the
    model as a whole, as the backward pass begins with it. The optimizer is made after it: one that was made before
    keeps the whole parameters, which nobody uses any more, and trains nothing (D24).
    """
    mesh = make_mesh(replicas)
    fully_shard(model.first, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def parts(tensors: dict[str, Any]) -> dict[str, Tensor]:
    """This replica's part of each."""
    return {name: tensor.to_local().detach() for name, tensor in tensors.items()}


def whole(tensors: dict[str, Any]) -> dict[str, Tensor]:
    """All of each, gathered: to look at them."""
    return {name: tensor.full_tensor().detach() for name, tensor in tensors.items()}


# %% A train step


def train(
    model: Net, x: Tensor, y: Tensor, replicas: int, *, clip: float = float("inf"), microbatches: int = 1
) -> dict[str, Tensor]:
    """Some updates by Adam: the loss and the gradients' norm before each, and the parameters after them."""
    shard(model, replicas)
    optimizer = torch.optim.Adam(model.parameters(), LR)
    losses, norms = [], []
    for _ in range(UPDATES):
        losses.append(accumulate(model, by_replica(x, replicas), by_replica(y, replicas), microbatches) / replicas)
        dist.all_reduce(losses[-1])
        norm: Any = nn.utils.clip_grad_norm_(model.parameters(), clip)  # of all parts: gradients are DTensors, too
        norms.append(norm.full_tensor())
        optimizer.step()
        optimizer.zero_grad()
    return {"losses": torch.stack(losses), "norms": torch.stack(norms), **whole(dict(model.named_parameters()))}


# %% Microbatches


def accumulate(model: Net, x: Tensor, y: Tensor, microbatches: int) -> Tensor:
    """The mean loss of this replica's samples, and its gradient, microbatch by microbatch.

    Gradients are scattered after each. ``model.set_requires_gradient_sync(False)``, DDP's no_sync, scatters after the
    last one alone: less is sent, and until then each replica holds the gradients of all parameters.
    """
    losses = []
    for x_part, y_part in zip(x.chunk(microbatches), y.chunk(microbatches), strict=True):
        loss = loss_fn(model, x_part, y_part) / microbatches
        loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum()


# %% Bytes on a device


def bytes_on_a_device(model: Net, x: Tensor, y: Tensor) -> dict[str, int]:
    """A replica's bytes after an update by Adam: parameters, their gradients, and two moments of each."""
    optimizer = torch.optim.Adam(model.parameters(), LR)
    loss_fn(model, x, y).backward()
    optimizer.step()

    def count(tensors: Iterable[Tensor | None]) -> int:
        held = [each.to_local() if isinstance(each, DTensor) else each for each in tensors if each is not None]
        return sum(tensor.nbytes for tensor in held)

    return {
        "parameters": count(model.parameters()),
        "gradients": count(parameter.grad for parameter in model.parameters()),
        "moments": count(state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")),
    }


# %% What goes wrong


def clipped(model: Net, x: Tensor, y: Tensor, replicas: int) -> dict[str, dict[str, Tensor]]:
    """The gradients, clipped by the norm of all, and by each replica for itself: by its own part's norm (D25).

    Parts that are scaled by different factors are not the gradient of anything, and nothing warns: where a loop over
    ``parameter.grad.to_local()`` was written for DDP, it is wrong here.
    """
    clip = CLIP / 2
    loss_fn(shard(model, replicas), by_replica(x, replicas), by_replica(y, replicas)).backward()
    gradients: dict[str, Any] = {name: parameter.grad for name, parameter in model.named_parameters()}
    right = {name: gradient.clone() for name, gradient in gradients.items()}
    total: Any = nn.utils.get_total_norm(right.values())
    nn.utils.clip_grads_with_norm_(model.parameters(), clip, total.full_tensor())
    own = nn.utils.get_total_norm(parts(right).values())
    wrong = {name: gradient * (clip / (own + 1e-6)).clamp(max=1) for name, gradient in parts(right).items()}
    return {"right": parts(gradients), "by its own norm": wrong, "norm": {"all": total.full_tensor(), "own": own}}


# %% All of it


def lesson(replica: int, replicas: int, rendezvous: str) -> None:
    """Print everything above, under its title."""
    start(replica, replicas, rendezvous)
    x, y = draw(replicas * SAMPLES, FEATURES, seed=8), draw(replicas * SAMPLES, 1, seed=9)
    show_by_replica("Who holds what", **parts(dict(shard(Net(), replicas).named_parameters())))
    show("A train step", **train(Net(), x, y, replicas))
    show("A train step, clipped", **train(Net(), x, y, replicas, clip=CLIP))
    show("A train step, in microbatches", **train(Net(), x, y, replicas, clip=CLIP, microbatches=2))
    for how, model in (("replicated", Net()), ("sharded", shard(Net(), replicas))):
        show(f"Bytes on a device, {how}", **bytes_on_a_device(model, x, y))
    for how, found in clipped(Net(), x, y, replicas).items():
        show_by_replica(f"What goes wrong: {how}", **found)
    leave()


if __name__ == "__main__":
    launch(lesson, __doc__)
