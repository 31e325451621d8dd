"""The processes that share a run, in PyTorch: finding one another, and comparing their configurations. Alone:

python -m side_by_side.pytorch.processes
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from port.errors import UsageError
from side_by_side.config import Config
from side_by_side.pytorch.replicas import Replicas
from side_by_side.ranks import check_the_same, fingerprints

# %% Finding one another


@contextmanager
def joined(config: Config, platform: str | None = None) -> Iterator[Replicas]:
    """This process's replicas; among several ranks, once it has found the others.

    ``platform`` is "cpu", "gpu" …; None is the best that there is.

    Raises:
        UsageError: torchrun has not started as many ranks as the config wants, or there are fewer GPUs.
    """
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started != config.replicas:
        raise UsageError(
            f"{config.replicas} replicas are configured, {started} started; start them with\n  torchrun --standalone "
            f"--nproc-per-node {config.replicas} -m side_by_side.pytorch.train --devices {config.replicas} …"
        )
    if config.replicas == 1:
        yield Replicas(config)
        return
    form = Replicas
    if config.parallel == "fsdp":
        from side_by_side.pytorch.sharded_replicas import FullySharded  # a second to import

        form = FullySharded
    # A rank that hangs is waited for so long; then the others end, and torchrun ends all.
    if platform != "cpu" and torch.cuda.is_available():
        there, local_rank = torch.cuda.device_count(), int(os.environ["LOCAL_RANK"])
        if local_rank >= there:
            raise UsageError(
                f"{local_rank + 1} GPUs are configured, PyTorch sees {there} here: choose --devices {there}"
            )
        torch.cuda.set_device(local_rank)
    dist.init_process_group(timeout=timedelta(seconds=config.time_limit))
    try:
        yield form(config, dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


# %% The same configuration


def check_the_others(replicas: Replicas, model: nn.Module, first_step: int) -> None:
    """Compare every rank's configuration, before DDP gives all of them rank 0's weights.

    Raises:
        UsageError: they differ; names the ranks.
    """
    weights: Iterable[Tensor] = model.state_dict().values()
    mine = fingerprints(replicas.config, (tensor.cpu().numpy() for tensor in weights), first_step)
    everybody = [mine] * replicas.config.replicas
    if replicas.config.replicas > 1:
        dist.all_gather_object(everybody, mine)
    check_the_same(everybody)


# %% A process that is alone


def main() -> None:
    """One process, which agrees with itself; and the error if others are configured that were not started."""
    with joined(Config()) as replicas:
        model = nn.Linear(3, 2)
        check_the_others(replicas, model, first_step=0)
        print(f"rank {replicas.rank} of {replicas.processes}, {replicas.own} replica of {replicas.config.replicas}")
    try:
        with joined(Config(devices=2)):
            pass
    except UsageError as error:
        print(error)


if __name__ == "__main__":
    main()
