"""Find numbers of layers that only say how often the same layers are called, in models whose layers share weights."""

from __future__ import annotations

import copy
from typing import Any

from port.translation.hub.hub_model import HubModel
from port.translation.passes.repeats import FEWEST

FEW = 2


def rounds_needed(model: HubModel, path: tuple[str, ...]) -> int:
    """Return how many rounds show that the layers are a loop over the same ones; 0 if each has its own weights.

    Args:
        model: the model.
        path: the path of the configuration's field that counts the layers.
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
        except Exception:  # the original's code may refuse any number
            return 0
    return FEWEST if counts[0] == counts[1] else 0


def _modules(model: HubModel, config: Any) -> int:
    import torch

    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        return sum(1 for _ in model.build(config).modules())
