"""Data parallelism in PyTorch: a process for each replica, and a part of the batch in each. Alone, or by torchrun:

    python -m side_by_side.pytorch.parallel --replicas 4
    torchrun --nproc-per-node 4 -m side_by_side.pytorch.parallel

Its JAX twin prints the same numbers. NCCL if there are enough GPUs, else gloo on the CPU.

Data parallelism gives every replica the whole model and a part of the batch, and averages the gradients. Model
parallelism gives every device a part of the model: some of the layers (pipeline), a slice of every matrix (tensor), or
a slice that is gathered when its turn comes (FSDP). It is for models that one device cannot hold. Synchronous training
waits for all replicas at each update, so that together they compute what one would on the whole batch. Loose training
does not wait: replicas use parameters that are some updates old (a parameter server), or average them now and then
(local SGD). That is another computation, and one device cannot check it. Here all is synchronous and data parallel.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.debug import visualize_sharding
from torch.nn.parallel import DistributedDataParallel

FEATURES, HIDDEN, SAMPLES = 3, 4, 5  # SAMPLES on each replica
LR, UPDATES = 0.1, 3


# %% Replicas


def start(replica: int, replicas: int, rendezvous: str) -> None:
    """Meet the other processes, and take this one's device."""
    on_gpus = torch.cuda.device_count() >= replicas
    if on_gpus:
        torch.cuda.set_device(replica)
        torch.set_default_device("cuda")
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if on_gpus else "gloo", rendezvous, rank=replica, world_size=replicas)


def draw(*shape: int, seed: int) -> Tensor:
    """float64 numbers that both sides have."""
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def by_replica(x: Tensor, replicas: int) -> Tensor:
    """(N, …) → (N / replicas, …), the part of this process."""
    return x.reshape(replicas, -1, *x.shape[1:])[dist.get_rank()]


def show(title: str, **results: Any) -> None:
    """Print what all replicas have alike."""
    if dist.get_rank() == 0:
        print(f"# {title}")
        for name, numbers in results.items():
            print(f"{name}:", *(f"{number:.15g}" for number in torch.as_tensor(numbers).flatten().tolist()))


def show_by_replica(title: str, **results: Tensor) -> None:
    """Print what each replica has: every process brings its own."""
    stacked: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(stacked, {name: numbers.cpu() for name, numbers in results.items()})
    show(title, **{f"{name}, replica {r}": own[name] for name in results for r, own in enumerate(stacked)})


# %% A dot product on every replica


def dot_products(x: Tensor, y: Tensor) -> Tensor:
    """(replicas, features) twice → this replica's (). The program is one replica's; it asks which one it is."""
    replica = dist.get_rank()
    return torch.dot(x[replica], y[replica])


# %% What each replica gets


def parts(x: Tensor) -> dict[str, Tensor]:
    """x (replicas, replicas), by each of pmap's ``in_axes``.

    | in_axes | replica r gets |
    |---------|----------------|
    | 0       | x[r]           |
    | 1       | x[:, r]        |
    | None    | x              |
    """
    replica = dist.get_rank()
    return {"in_axes 0": x[replica], "in_axes 1": x[:, replica], "in_axes None": x}


# %% vmap inside pmap


def dots_of_samples(x: Tensor, w: Tensor) -> dict[str, Tensor]:
    """x (replicas, samples, features), w (features,): each sample's dot product, and how far it is above their mean.

    Neither axis has a name: the samples' is one of the tensor's, the replicas' is the process group.
    """
    dots = torch.vmap(torch.dot, in_dims=(0, None))(x[dist.get_rank()], w)
    mean = dots.mean()
    dist.all_reduce(mean)
    return {"above the mean": dots - mean / len(x), "dot": dots}


# %% Collectives


def collectives(x: Tensor) -> dict[str, Tensor]:
    """x (replicas, features), a row on each: what each gets from the others. They write into the tensors given."""
    replica, replicas = dist.get_rank(), len(x)
    gathered = [torch.empty_like(x[replica]) for _ in range(replicas)]
    dist.all_gather(gathered, x[replica])
    total = x[replica].clone()
    dist.all_reduce(total)  # a sum; older gloo has no ReduceOp.AVG, so the mean is a division
    received = torch.empty_like(x[replica])
    to_next = dist.P2POp(dist.isend, x[replica], (replica + 1) % replicas)
    from_last = dist.P2POp(dist.irecv, received, (replica - 1) % replicas)
    for request in dist.batch_isend_irecv([to_next, from_last]):
        request.wait()
    return {"all_gather": torch.stack(gathered), "mean": total / replicas, "ring": received, "sum": total}


# %% A mesh of devices


def make_mesh(replicas: int) -> DeviceMesh:
    """The processes in a row, the row's axis named "replica"."""
    return init_device_mesh(torch.get_default_device().type, (replicas,), mesh_dim_names=("replica",))


def make_mesh_the_older_way(replicas: int) -> DeviceMesh:
    """By the numbers of the processes, in an order of one's own."""
    return DeviceMesh(torch.get_default_device().type, list(range(replicas)), mesh_dim_names=("replica",))


# %% Sharded data


def shard(x: Tensor, mesh: DeviceMesh) -> DTensor:
    """One global tensor (N, features), its rows spread over the replicas. Replicate() would put all of it on each."""
    return distribute_tensor(x, mesh, [Shard(0)])


# %% A model, its loss, some updates


class Net(nn.Module):
    """features → hidden → 1."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(draw(FEATURES, HIDDEN, seed=1))
        self.w2 = nn.Parameter(draw(HIDDEN, 1, seed=2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.w1) @ self.w2


def loss_fn(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The mean squared error over its samples: x (n, features), y (n, 1)."""
    return ((model(x) - y) ** 2).mean()


def train(step: Callable[..., Tensor], model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Some updates of the model; the loss before each."""
    optimizer = torch.optim.SGD(model.parameters(), LR)
    losses = []
    for _ in range(UPDATES):
        losses.append(step(model, x, y))
        descend(optimizer)
    return torch.stack(losses)


def descend(optimizer: torch.optim.Optimizer) -> None:
    """SGD. Adam would hide gradients that are N times too large: it divides them by their own size."""
    optimizer.step()
    optimizer.zero_grad()


# %% A train step: gradients averaged by hand


def train_averaging_gradients(model: Net, x: Tensor, y: Tensor, replicas: int) -> Tensor:
    """all_reduce: a gradient is the replica's own, and their mean is the batch's."""

    def step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = loss_fn(model, x, y)
        loss.backward()
        loss, gradients = loss.detach(), [parameter.grad for parameter in model.parameters()]
        for tensor in (loss, *(gradient for gradient in gradients if gradient is not None)):
            dist.all_reduce(tensor)
            tensor /= replicas
        return loss

    return train(step, model, by_replica(x, replicas), by_replica(y, replicas))


# %% A train step: averaged in the backward pass


def train_averaging_in_backward(model: Net, x: Tensor, y: Tensor, replicas: int) -> Tensor:
    """DDP: hooks average the gradients while the backward pass computes the next ones.

    It wraps the model's own parameters, so that they are trained where they are. The loss is each replica's own.
    """

    def step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = loss_fn(model, x, y)
        loss.backward()
        loss = loss.detach()
        dist.all_reduce(loss)
        return loss / replicas

    return train(step, DistributedDataParallel(model), by_replica(x, replicas), by_replica(y, replicas))


# %% A train step: written for the whole batch


def train_on_whole_batch(model: Net, x: Tensor, y: Tensor, replicas: int) -> Tensor:
    """DTensor: the step of one device. Every operation sees where its inputs lie and adds the collectives.

    BatchNorm's statistics are each replica's own in the two forms above; for the whole batch's there is SyncBatchNorm,
    on GPUs only (D5, D6).
    """

    def step(model: nn.Module, x: DTensor, y: DTensor) -> Tensor:
        loss: Any = loss_fn(model, x, y)
        loss.backward()
        return loss.detach().full_tensor()

    mesh = make_mesh(replicas)
    distributed = distribute_module(copy.deepcopy(model), mesh)  # every parameter a DTensor, the same on each replica
    losses = train(step, distributed, shard(x, mesh), shard(y, mesh))
    trained: dict[str, Any] = distributed.state_dict()
    model.load_state_dict({name: parameter.full_tensor() for name, parameter in trained.items()})
    return losses


# %% Shards of uneven size


def uneven_shards(losses: Tensor, sizes: list[int]) -> dict[str, Tensor]:
    """The loss of each sample (N,), of which replica r has n_r = sizes[r]. A mean of means is not the mean (D8).

    The weights n_r · R / N mend it. What holds for the loss holds for its gradient.
    """
    own = losses.split(sizes)[dist.get_rank()]
    mean = own.mean()
    means = torch.stack([mean, len(own) * len(sizes) / sum(sizes) * mean])
    dist.all_reduce(means)
    mean_of_means, weighted = means / len(sizes)
    return {"mean of means": mean_of_means, "weighted": weighted, "whole": losses.mean()}


# %% What goes wrong


def traps(w: Tensor, x: Tensor, y: Tensor, replicas: int) -> dict[str, Tensor]:
    """A gradient by w (features,) on every replica, with DDP used in two wrong ways.

    Reduced once more by hand, what DDP has averaged is N times too large. Where the forward pass goes through the model
    that was wrapped and not through DDP, nothing is reduced, and each replica has its own. Neither raises an error.
    """
    linear = nn.Linear(FEATURES, 1, bias=False, dtype=w.dtype)
    linear.weight.data = w[None]
    wrapped = DistributedDataParallel(linear)

    def gradient(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        linear.zero_grad()
        loss_fn(model, x, y[:, None]).backward()
        assert linear.weight.grad is not None
        return linear.weight.grad[0].clone()

    x_own, y_own = by_replica(x, replicas), by_replica(y, replicas)
    never_reduced = gradient(linear, x_own, y_own)
    reduced_twice = gradient(wrapped, x_own, y_own)
    dist.all_reduce(reduced_twice)
    return {"never reduced": never_reduced, "reduced twice": reduced_twice, "right": gradient(linear, x, y)}


# %% All of it


def lesson(replica: int, replicas: int, rendezvous: str) -> None:
    """Print everything above, under its title."""
    start(replica, replicas, rendezvous)
    x, y, w = draw(replicas, FEATURES, seed=3), draw(replicas, FEATURES, seed=4), draw(FEATURES, seed=5)
    show_by_replica("A dot product on every replica", dot=dot_products(x, y))
    show_by_replica("What each replica gets", **parts(draw(replicas, replicas, seed=6)))
    show_by_replica("vmap inside pmap", **dots_of_samples(draw(replicas, SAMPLES, FEATURES, seed=7), w))
    show_by_replica("Collectives", **collectives(x))
    meshes = {"make_mesh": make_mesh(replicas), "the older way": make_mesh_the_older_way(replicas)}
    show("A mesh of devices", **{way: mesh.mesh for way, mesh in meshes.items()})

    x, y = draw(replicas * SAMPLES, FEATURES, seed=8), draw(replicas * SAMPLES, 1, seed=9)
    sharded = shard(x, make_mesh(replicas))
    show_by_replica("Sharded data", rows=sharded.to_local())
    visualize_sharding(sharded, use_rich=True)
    for title, train_model in (
        ("gradients averaged by hand", train_averaging_gradients),
        ("averaged in the backward pass", train_averaging_in_backward),
        ("written for the whole batch", train_on_whole_batch),
    ):
        model = Net()
        losses = train_model(model, x, y, replicas)
        show(f"A train step: {title}", losses=losses, w1=model.w1, w2=model.w2)
    sizes = [2 * replica + 1 for replica in range(replicas)]
    show("Shards of uneven size", **uneven_shards(draw(sum(sizes), seed=10), sizes))
    show_by_replica("What goes wrong", **traps(w, x, y[:, 0], replicas))
    leave()


def leave() -> None:
    """End this process at once: a thread of gloo's that lets go of a tensor while the interpreter ends aborts it."""
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # pytorch/pytorch#179291


def launch(lesson: Callable[[int, int, str], None], about: str | None) -> None:
    """Start a lesson in as many processes as are asked for; torchrun has started them already."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=2, help="processes; under torchrun it says how many")
    replicas = parser.parse_args().replicas
    if dist.is_torchelastic_launched():
        lesson(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://")
    else:
        forks = "forkserver" in multiprocessing.get_all_start_methods()
        multiprocessing.set_forkserver_preload(["torch.distributed.tensor.debug"])  # to import torch once for all
        with tempfile.TemporaryDirectory() as folder:
            meeting_place = (Path(folder) / "rendezvous").as_uri()
            torch.multiprocessing.start_processes(
                lesson, (replicas, meeting_place), nprocs=replicas, start_method="forkserver" if forks else "spawn"
            )


if __name__ == "__main__":
    launch(lesson, __doc__)
