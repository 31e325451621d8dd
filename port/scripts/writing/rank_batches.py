"""Join the batches of several processes into the global batch of each update.

DistributedDataParallel averages the gradients of the processes' losses. If each loss is a mean over examples, and all
processes have equally many, that is the gradient of the global batch's loss, which a written update uses.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from port.errors import UsageError
from port.scripts.observing.session import Session
from port.scripts.ranks import ProcessRank
from port.scripts.writing.capture import Capture, LossPath
from port.scripts.writing.followed import followed
from port.scripts.writing.loss_source import inputs_of, names_of_numbers, varying_numbers

FILE = "given.safetensors"
NOTHING = "nothing_given.txt"
"""The file that says why a process saved nothing."""
WAIT_SECONDS = 120.0
"""How long to wait for the other processes, which make the same updates."""
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class RankInputs:
    """A process's inputs and losses.

    Attributes:
        inputs: the inputs of each path to a loss.
        losses: the losses' values.
        parts: for each path, the inputs of each of several processes.
    """

    inputs: Sequence[Mapping[str, torch.Tensor]]
    losses: Sequence[float]
    parts: Sequence[Sequence[Mapping[str, torch.Tensor]]] = ()


def inputs_of_paths(paths: Sequence[LossPath]) -> RankInputs:
    """This process's inputs; the paths come from `followed`."""
    varying = varying_numbers(paths) if paths else frozenset()
    said = names_of_numbers(paths, varying)
    return RankInputs([inputs_of(path, varying, said) for path in paths], [path.value for path in paths])


def save_inputs(folder: Path, paths: Sequence[LossPath]) -> None:
    """Save the inputs for rank 0, atomically."""
    from safetensors.torch import save_file

    rank_inputs = inputs_of_paths([followed(path) for path in paths if path.calls])
    tensors = {f"{n}.{name}": one.contiguous() for n, its in enumerate(rank_inputs.inputs) for name, one in its.items()}
    tensors["losses"] = torch.tensor(rank_inputs.losses, dtype=torch.float64)
    save_file(tensors, folder / f".{FILE}")
    (folder / f".{FILE}").rename(folder / FILE)


def leaves_it_to_the_first(session: Session, capture: Capture) -> bool:
    """Whether this process is not rank 0; if so, it saves its inputs for rank 0.

    It does so once enough was watched, or at the end of a script that makes fewer updates than requested.
    """
    if ProcessRank.of_this_process().is_first:
        return False
    before, then = session.watch, session.at_end

    def leave() -> None:
        if (session.folder / FILE).exists():
            return
        try:
            save_inputs(session.folder, capture.paths)
        except Exception as error:  # anything in the script's data
            (session.folder / NOTHING).write_text(f"{type(error).__name__}: {error}", "utf-8")

    def see(kind: str, details: dict[str, Any]) -> None:
        before(kind, details)
        if kind == "watched":
            leave()

    def end() -> None:
        leave()
        then()

    session.watch, session.at_end = see, end
    return True


def of_all_ranks(work: Path, ours: RankInputs) -> RankInputs:
    """The global batches, concatenated in rank order, and the means of the processes' losses.

    Args:
        work: the folder in which the other processes saved theirs.
        ours: rank 0's inputs.

    Raises:
        UsageError: they do not match.
    """
    ranks = range(1, ProcessRank.of_this_process().size)
    every = [ours, *(_read(work / f"rank{rank}" / FILE, rank, len(ours.losses)) for rank in ranks)]
    count = min(len(one.losses) for one in every)
    inputs = [
        {name: _joined(name, [one.inputs[number].get(name) for one in every]) for name in ours.inputs[number]}
        for number in range(count)
    ]
    losses = [sum(one.losses[number] for one in every) / len(every) for number in range(count)]
    return RankInputs(inputs, losses, [[one.inputs[number] for one in every] for number in range(count)])


def _joined(name: str, parts: Sequence[torch.Tensor | None]) -> torch.Tensor:
    tensors = [one for one in parts if one is not None]
    if len(tensors) < len(parts) or len({one.shape for one in tensors}) > 1:
        raise UsageError(
            f"{name} has not the same shape in all processes: the mean of their losses is then not that of the whole "
            "batch. DistributedSampler gives each as many; drop_last=True where a batch is left over"
        )
    if not tensors[0].dim():
        if any(not torch.equal(one, tensors[0]) for one in tensors):
            raise UsageError(
                f"the number {name} differs between processes: compute it the same in all, or from the batch"
            )
        return tensors[0]
    return torch.cat(tensors)


def _read(file: Path, rank: int, count: int) -> RankInputs:
    from safetensors.torch import load_file

    began = time.monotonic()
    while not file.exists():
        if (said := file.with_name(NOTHING)).exists():
            raise UsageError(f"the inputs of process {rank} cannot be read: {said.read_text('utf-8')}")
        if time.monotonic() - began > WAIT_SECONDS:
            raise UsageError(
                f"process {rank} did not save its inputs within {WAIT_SECONDS:g} s of the end of process 0: it failed "
                "(its error is above), or waits for process 0. Watch as many updates as all processes make: --watch N"
            )
        time.sleep(POLL_SECONDS)
    tensors = load_file(file)
    losses = tensors.pop("losses").tolist()
    inputs: list[dict[str, torch.Tensor]] = [{} for _ in losses]
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        inputs[int(number)][name] = value
    return RankInputs(inputs[:count], losses[:count])
