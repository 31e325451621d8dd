"""Sharded checkpoints in PyTorch: each rank writes its own part, in a folder of torch.distributed.checkpoint.

    python -m side_by_side.pytorch.sharded_checkpoint

No rank gathers the state or reads more than its part, and another number of ranks may resume: each reads its part of
what was written.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from port.errors import BrokenWeights, UsageError
from port.weights.dcp_metadata import read_metadata
from side_by_side.pytorch.checkpoint import check_fit, contents_of, opened, write_file

SUFFIX = ".checkpoint"
REST = "rest.pt"
"""What all ranks have alike: the step, the optimizer's groups, the schedule."""


# %% Saving
def save_checkpoint(path: Path, step: int, model: nn.Module, optimizer: Optimizer, schedule: LRScheduler) -> None:
    """Save what ``step``, the next one, needs, replacing an earlier checkpoint. All ranks call it.

    The step's folder has its name when all ranks have written, and the earlier one goes after that: a rank that is
    killed in here leaves one of the two.

    Args:
        path: the folder; it is created if it is missing.
        step: the number of steps made.
        model: its parameters and running statistics are saved, those of rank 0 where each rank has its own.
        optimizer: its state and, in its groups, the current learning rates.
        schedule: its position.
    """
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()  # an evaluation, after which no backward pass comes, leaves it gathered (D30)
    beside = path / ".saving"  # one name: what a kill leaves here, the next save takes away
    if dist.get_rank() == 0:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
    dist.barrier()
    for buffer in model.buffers():  # of copies, one rank's is written, and not always the first one's (D26)
        dist.broadcast(buffer, 0)
    dcp.save(_sharded(model, optimizer), checkpoint_id=beside)  # after it, every rank's file is on the disk
    if dist.get_rank() == 0:
        rest = {
            "step": step,
            "contents": contents_of(model, optimizer, schedule),
            "groups": optimizer.state_dict()["param_groups"],
            "schedule": schedule.state_dict(),
        }
        write_file(beside / REST, rest)
        shutil.rmtree(path / str(step), ignore_errors=True)  # of an earlier run, which this one replaces
        os.replace(beside, path / str(step))
        for other in path.iterdir():
            if other.name != str(step):
                shutil.rmtree(other)


# %% Restoring
def latest_step(path: Path) -> int | None:
    """The step at which the checkpoint at ``path`` resumes; None if there is none."""
    steps = [int(folder.name) for folder in path.iterdir() if folder.name.isdecimal()] if path.is_dir() else []
    return max(steps, default=None)


def restore_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, schedule: LRScheduler) -> int:
    """Load the checkpoint into the model, the optimizer and the schedule, which are made as for a new run.

    Returns:
        The next step.

    Raises:
        UsageError: there is no checkpoint at ``path``.
        BrokenWeights: the checkpoint is invalid, or incomplete: names the files that are missing or cut off.
        WeightsMismatch: the checkpoint is of another model, optimizer or schedule; names what differs.
    """
    step = latest_step(path)
    if step is None:
        raise UsageError(f"there is no checkpoint at {path}: pass the path of the existing run, or start a new run")
    folder = path / str(step)
    rest = opened(folder / REST)
    check_fit(path, rest["contents"], contents_of(model, optimizer, schedule))
    read_metadata(folder)  # sees that every rank's file is there, as long as it was
    optimizer.load_state_dict({"state": {}, "param_groups": rest["groups"]})
    schedule.load_state_dict(rest["schedule"])
    try:
        reader = _Reader(folder)
        _make_room(optimizer, model, reader.read_metadata().state_dict_metadata)
        dcp.load(_sharded(model, optimizer), storage_reader=reader)
    except (OSError, RuntimeError, ValueError, LookupError, pickle.UnpicklingError, dcp.CheckpointException) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise BrokenWeights(f"{folder} cannot be read as a checkpoint: {reason[0][:200]}") from error
    return step


def _sharded(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """The tensors, by name: of a DTensor this rank's part is written, and read."""
    state = {name: optimizer.state[parameter] for name, parameter in model.named_parameters()}
    return {"model": model.state_dict(), "optimizer": {name: values for name, values in state.items() if values}}


def _make_room(optimizer: Optimizer, model: nn.Module, saved: dict[str, Any]) -> None:
    """Give the optimizer, which has no state before its first step, the state that is to be read."""
    for name, parameter in model.named_parameters():
        prefix = f"optimizer.{name}."
        for key in [key for key in saved if key.startswith(prefix)]:
            size, dtype, what = saved[key].size, saved[key].properties.dtype, key.removeprefix(prefix)
            if isinstance(parameter, DTensor) and size == parameter.shape:
                made: Tensor = torch.zeros_like(parameter, dtype=dtype).detach()
            else:  # torch's optimizers count their steps on the CPU
                made = torch.zeros(size, dtype=dtype, device="cpu" if what == "step" else parameter.device)
            optimizer.state[parameter][what] = made


class _Reader(dcp.FileSystemReader):
    """torch's reader of a folder. Its list of contents is a pickle, which could name, and run, anything."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        with (Path(self.path) / ".metadata").open("rb") as file:
            metadata = _Unpickler(file).load()
        metadata.storage_meta.load_id = self.load_id
        return metadata


class _Unpickler(pickle.Unpickler):
    """Knows torch's sizes and dtypes, paths, and the dataclasses of checkpoints; nothing else is run."""

    def find_class(self, module: str, name: str) -> Any:
        known = module.partition(".")[0] in ("torch", "pathlib")
        found = super().find_class(module, name) if known else None
        if found in (torch.Size, torch.serialization._get_layout) or isinstance(found, torch.dtype):
            return found
        if isinstance(found, type) and (issubclass(found, PurePath) or module.startswith(dcp.__name__)):
            return found
        raise pickle.UnpicklingError(f".metadata names {module}.{name}, which is nothing of a checkpoint's")


# %% Saving, and resuming


def updates(rank: int, ranks: int, folder: str) -> None:
    """Six updates by two ranks, and three that resume from their checkpoint of the first three; by two, or by one."""
    torch.set_num_threads(1)
    meeting_place = (Path(folder) / f"rendezvous of {ranks}").as_uri()
    dist.init_process_group("gloo", meeting_place, rank=rank, world_size=ranks)
    path = Path(folder) / "checkpoint"

    def begin() -> tuple[nn.Module, Optimizer, LRScheduler]:
        model = nn.Linear(3, 2, dtype=torch.float64)
        numbers = np.random.default_rng(0).standard_normal((2, 3))
        model.load_state_dict({"weight": torch.tensor(numbers), "bias": torch.zeros(2)})
        fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        return model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)

    def update(step: int, model: nn.Module, optimizer: Optimizer, schedule: LRScheduler) -> None:
        optimizer.zero_grad()
        x = torch.tensor(np.random.default_rng(step).standard_normal((4, 3)))
        model(x.chunk(ranks)[rank]).square().mean().backward()
        optimizer.step()
        schedule.step()

    def whole_weight(model: Any) -> Tensor:
        weight: Tensor = model.weight.full_tensor()
        return weight

    whole = begin()
    for step in range(6 if ranks > 1 else 0):
        if step == 3:
            save_checkpoint(path, step, *whole)
        update(step, *whole)
    resumed = begin()
    for step in range(restore_checkpoint(path, *resumed), 6):
        update(step, *resumed)
    weight, weight_resumed = (whole_weight(model) for model, _, _ in (whole, resumed))
    if rank == 0 and ranks > 1:
        print("the same bits:", torch.equal(weight, weight_resumed))
    if rank == 0:
        print(f"weight, resumed by {ranks}:", *(f"{value:.12f}" for value in weight_resumed.flatten().tolist()))
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # a thread of gloo's that lets go of a tensor while the interpreter ends aborts it: see alone.py


def main() -> None:
    """Two ranks, and one."""
    with tempfile.TemporaryDirectory() as folder:
        for ranks in (2, 1):
            torch.multiprocessing.start_processes(updates, (ranks, folder), nprocs=ranks, start_method="spawn")


if __name__ == "__main__":
    main()
