"""Checkpoints in PyTorch: everything that the next step needs, in one file of torch.save. Alone, to see it:

    python -m side_by_side.pytorch.checkpoint

Otherwise a run needs only its config: the order of the samples and the keys of dropout are functions of the seed and
the step.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from port.errors import BrokenWeights, UsageError, WeightsMismatch

SUFFIX = ".checkpoint.pt"


# %% Saving
def save_checkpoint(path: Path, step: int, model: nn.Module, optimizer: Optimizer, schedule: LRScheduler) -> None:
    """Save what ``step``, the next one, needs; it replaces an earlier checkpoint.

    The file is written atomically: a process that is killed in here leaves the earlier one.

    Args:
        path: the file; its folder is created if it is missing.
        step: the number of steps made.
        model: its parameters and running statistics are saved.
        optimizer: its state and, in its groups, the current learning rates.
        schedule: its position.
    """
    checkpoint = {
        "step": step,
        "contents": contents_of(model, optimizer, schedule),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.saving")  # one name: what a kill leaves here, the next save takes away
    write_file(beside, checkpoint)
    os.replace(beside, path)


def write_file(path: Path, checkpoint: dict[str, Any]) -> None:
    """Write a file of torch.save, and sync it to disk."""
    with path.open("wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())


# %% Restoring
def latest_step(path: Path) -> int | None:
    """The step at which the checkpoint at ``path`` resumes; None if there is none.

    Raises:
        BrokenWeights: the checkpoint is invalid, or incomplete.
    """
    return int(opened(path)["step"]) if path.exists() else None


def restore_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, schedule: LRScheduler) -> int:
    """Load the checkpoint into the model, the optimizer and the schedule, which are made as for a new run.

    Returns:
        The next step.

    Raises:
        UsageError: there is no checkpoint at ``path``.
        BrokenWeights: the checkpoint is invalid, or incomplete.
        WeightsMismatch: the checkpoint is of another model, optimizer or schedule; names what differs.
    """
    if not path.exists():
        raise UsageError(f"there is no checkpoint at {path}: pass the path of the existing run, or start a new run")
    checkpoint = opened(path)
    check_fit(path, checkpoint["contents"], contents_of(model, optimizer, schedule))
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    schedule.load_state_dict(checkpoint["schedule"])
    # torch gives the state its parameter's dtype. Some of it had another: float32 in NAdam's and ASGD's scalars.
    saved = checkpoint["optimizer"]["state"]
    for index, parameter in enumerate(parameter for group in optimizer.param_groups for parameter in group["params"]):
        for name, value in saved.get(index, {}).items():
            if isinstance(value, torch.Tensor):
                optimizer.state[parameter][name] = optimizer.state[parameter][name].to(value.dtype)
    return int(checkpoint["step"])


def opened(path: Path) -> dict[str, Any]:
    """The file's contents, on the CPU: from there they are copied to the model's device."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises what its parts raise, of many kinds
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise BrokenWeights(f"{path} cannot be read as a checkpoint: {reason[0][:200]}") from error
    if not isinstance(checkpoint, dict) or not {"step", "contents"} <= checkpoint.keys():
        raise BrokenWeights(f"{path} cannot be read as a checkpoint: it is a file of torch.save, but of something else")
    return checkpoint


# %% What fits
def contents_of(model: nn.Module, optimizer: Optimizer, schedule: LRScheduler) -> dict[str, str]:
    """What to save, by name. An optimizer has no state before its first step: its class represents it."""
    contents = {"optimizer": type(optimizer).__name__, "schedule": type(schedule).__name__}
    for name, tensor in model.state_dict().items():
        contents[f"model.{name}"] = f"{tensor.dtype} {tuple(tensor.shape)}".removeprefix("torch.")
    for index, group in enumerate(optimizer.param_groups):
        contents[f"optimizer.{index}"] = f"{len(group['params'])} parameters"
    return contents


def check_fit(path: Path, saved: dict[str, str], wanted: dict[str, str]) -> None:
    differing = [name for name in sorted(saved.keys() | wanted.keys()) if saved.get(name) != wanted.get(name)]
    if differing:
        described = [
            f"{name} is {saved.get(name, 'missing')}, here {wanted.get(name, 'missing')}" for name in differing
        ]
        more = f"; and {len(described) - 10} more" if len(described) > 10 else ""
        raise WeightsMismatch(f"{path} is the checkpoint of another run: it has {'; '.join(described[:10])}{more}")


# %% Saving, and resuming


def main() -> None:
    """Six updates, and three that resume from a checkpoint of the first three: the same weights, bit for bit."""

    def begin() -> tuple[nn.Module, Optimizer, LRScheduler]:
        model = nn.Linear(3, 2, dtype=torch.float64)
        numbers = np.random.default_rng(0).standard_normal((2, 3))
        model.load_state_dict({"weight": torch.tensor(numbers), "bias": torch.zeros(2)})
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        return model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)

    def update(step: int, model: nn.Module, optimizer: Optimizer, schedule: LRScheduler) -> None:
        optimizer.zero_grad()
        x = torch.tensor(np.random.default_rng(step).standard_normal((4, 3)))
        model(x).square().mean().backward()
        optimizer.step()
        schedule.step()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        whole = begin()
        for step in range(6):
            if step == 3:
                save_checkpoint(path, step, *whole)
            update(step, *whole)
        resumed = begin()
        for step in range(restore_checkpoint(path, *resumed), 6):
            print(f"step {step}, resumed from {latest_step(path)}")
            update(step, *resumed)

    weight = whole[0].get_parameter("weight")
    print("weight", *(f"{value:.12f}" for value in weight.flatten().tolist()))
    print("the same bits:", torch.equal(weight, resumed[0].get_parameter("weight")))


if __name__ == "__main__":
    main()
