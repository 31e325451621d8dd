"""Replicas that share the state too, in PyTorch: ranks of fully_shard, each with a part of every parameter.

`side_by_side/pytorch/fsdp.py` explains what is gathered and scattered; here is what the trainer needs of it. Alone, to
count what a device holds of our MLP:

    python -m side_by_side.pytorch.sharded_replicas
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from side_by_side.config import Config
from side_by_side.pytorch import sharded_checkpoint
from side_by_side.pytorch.model import build
from side_by_side.pytorch.optimizer import make_optimizer
from side_by_side.pytorch.replicas import Replicas

# %% Who holds what


def units(model: nn.Module) -> list[nn.Module]:
    """The parts of a model that are gathered one at a time: its children, and those of lists of blocks.

    The last one stays with the model as a whole, as backward() begins with it, and so does what two of them share.
    """
    owners = Counter(id(parameter) for child in called(model) for parameter in child.parameters())
    own = [child for child in called(model) if any(True for _ in child.parameters())][:-1]
    return [child for child in own if all(owners[id(parameter)] == 1 for parameter in child.parameters())]


def called(model: nn.Module) -> Iterator[nn.Module]:
    """A model's children; in place of a list, which nobody calls, those of the list."""
    for child in model.children():
        if type(child).forward is nn.Module.forward:
            yield from called(child)
        else:
            yield child


def bytes_held(tensors: Iterable[Tensor | None]) -> int:
    """How many bytes of them this device holds between two steps."""
    local = [each.to_local() if isinstance(each, DTensor) else each for each in tensors if each is not None]
    return sum(tensor.numel() * tensor.element_size() for tensor in local)


# %% The replicas


class FullySharded(Replicas):
    """torch.distributed.fsdp.fully_shard: a parameter is whole only while its part of the model computes.

    What DDP does after the backward pass in one all-reduce comes in two halves: gradients are reduced and scattered, so
    that each rank has the mean of its part and updates that alone; parameters are gathered when they are needed next.
    """

    @property
    def checkpoints(self) -> Any:
        return sharded_checkpoint

    def to_device(self, model: nn.Module, device: torch.device) -> None:
        """Shard every parameter by rows over the ranks, before the optimizer is made from them (D24).

        One unit after the other goes to the device: it never holds the whole model.
        """
        mesh = init_device_mesh(device.type, (self.config.replicas,))
        for unit in (*units(model), model):
            fully_shard(unit, mesh=mesh)

    def replicate(self, model: nn.Module) -> nn.Module:
        """The model as it is: its own hooks gather and reduce. Buffers are each rank's own: nobody sends them (D26)."""
        return model

    def whole(self, tensor: Tensor) -> Tensor:
        """All of a tensor, on every rank."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def accumulating(self, model: nn.Module, *, last: bool) -> AbstractContextManager[Any]:
        """Gradients are scattered with every microbatch: kept till the last one, each rank would hold all (D27)."""
        return nullcontext()


# %% What a device holds


def main() -> None:
    """Our MLP under Adam, on one device and on several: bytes that the first device holds between two steps.

    DDP's ranks each hold what one device does. The group is torch's own dummy, whose other ranks are not there.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore  # nothing for the trainer to import

    for devices in (1, 2, 4, 8):
        config = Config(optimizer="adam", batch_size=8, devices=devices, parallel="fsdp")
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=devices)
        model = build(config)
        if devices > 1:
            FullySharded(config, 0, devices).to_device(model, torch.device("cpu"))
        optimizer = make_optimizer(config, model.parameters())
        model(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).sum().backward()
        optimizer.step()
        held = {
            "parameters": bytes_held(model.parameters()),
            "gradients": bytes_held(parameter.grad for parameter in model.parameters()),
            "optimizer": bytes_held(moment for state in optimizer.state.values() for moment in state.values()),
        }
        print(f"{devices} devices:", ", ".join(f"{what} {count:,}" for what, count in held.items()))
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
