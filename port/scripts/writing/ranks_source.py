"""Write the data of a multi-process script for one process: each rank's data is made in turn and concatenated."""

from __future__ import annotations

from string import Template

OF_RANK = "data_of_rank"
BESIDE = """\
import os
import sys
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import jax
import torch
import torch.distributed
"""
TOGETHER = Template('''

RANKS = $ranks
"""The processes in which the original trains."""


class WholeBatches:
    """The global batches: the batches of all processes' loaders, concatenated in rank order."""

    def __init__(self, loaders):
        self.loaders = loaders

    def __len__(self):
        return min(map(len, self.loaders))

    def __iter__(self):
        if len(set(map(len, self.loaders))) > 1:
            sys.exit("the processes have different numbers of batches: DistributedSampler gives each the same number")
        return map(self.joined, zip(*self.loaders, strict=True))

    def joined(self, batches):
        return jax.tree.map(self.whole, *batches)

    def whole(self, *parts):
        if len(set(map(len, parts))) > 1:
            sys.exit("the processes' parts differ in length: the mean of their losses is not the whole batch's")
        return torch.cat(parts)

    def set_epoch(self, epoch):
        for loader in self.loaders:
            loader.sampler.set_epoch(epoch)


@contextmanager
def as_rank(rank: int):
    """Within this context, torch.distributed and torchrun's variables report this rank."""
    variables = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    results = {"get_rank": rank, "get_world_size": RANKS, "is_initialized": True}
    results |= dict.fromkeys(("init_process_group", "destroy_process_group", "barrier"))
    with ExitStack() as entered:
        entered.enter_context(patch.dict(os.environ, variables))
        for name, value in results.items():
            entered.enter_context(patch.object(torch.distributed, name, lambda *args, _value=value, **named: _value))
        yield


def $data(args: argparse.Namespace) -> tuple[dict[str, Any], Iterable[int]]:
    """The loaders, with global batches for training, and the epochs."""
    found = []
    for rank in range(RANKS):
        with as_rank(rank):
            found.append($of_rank(args))
    loaders, epochs = found[0]
    return {**loaders, "training": WholeBatches([one["training"] for one, _ in found])}, epochs
''')


def together_source(name: str, ranks: int) -> str:
    """The source after the function that makes one process's data.

    Args:
        name: the name of the function that train.py calls.
        ranks: how many processes there are.
    """
    return TOGETHER.substitute(data=name, ranks=ranks, of_rank=OF_RANK)
