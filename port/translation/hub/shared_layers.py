"""Which numbers of layers only say how often the same layers are called: a model whose layers share their weights."""

from __future__ import annotations

import copy
from typing import Any

from port.translation.hub.hub_model import HubModel
from port.translation.passes.repeats import FEWEST

FEW = 2


def rounds_needed(model: HubModel, path: tuple[str, ...]) -> int:
    """How many layers show that they are a loop through the same ones; 0 where each layer is its own.

    Args:
        model: of ``transformers``.
        path: of the field of its configuration that is the number of layers.
    """
    config = copy.deepcopy(model.config)
    owner = config
    for name in path[:-1]:
        owner = getattr(owner, name)
    if getattr(owner, path[-1]) < FEWEST:
        return 0
    counts = []
    for few in (FEW, FEW + 1):
        setattr(owner, path[-1], few)
        try:
            counts.append(_modules(model, config))
        except Exception:  # the original's code, which may refuse any number by itself
            return 0
    return FEWEST if counts[0] == counts[1] else 0


def _modules(model: HubModel, config: Any) -> int:
    import torch

    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        return sum(1 for _ in model.build(config).modules())
