"""Random weights: a copy of a torch model in which no two tensors are alike, and none is zero or one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from port.parity.sides.copies import copied

SPREAD = 0.4
"""By how much a weight is perturbed, at most, relative to itself; a constant one absolutely."""


def with_random_weights(module: torch.nn.Module, seed: int = 0) -> Any:
    """Copy a model with its parameters and running statistics perturbed from their initial values by random numbers.

    Initial zeros and ones hide which tensor is which, and a model whose last layer is zero agrees with any other.
    Signs and magnitudes are kept, so that results stay finite. Parameters that are not trained, beside others that are,
    keep their values: constants, as a table of sines, which the other side may compute.

    Args:
        module: is not modified.
        seed: of the random numbers.
    """
    made = copied(module)
    generator = np.random.default_rng(seed)
    trained = {name: tensor for name, tensor in made.named_parameters() if tensor.requires_grad}
    tensors = trained or dict(made.named_parameters())
    tensors |= {name: buffer for name, buffer in made.named_buffers() if _is_statistic(name)}
    with torch.no_grad():
        for tensor in tensors.values():
            if tensor.is_floating_point() and tensor.numel():
                drawn = torch.from_numpy(generator.uniform(-SPREAD, SPREAD, tuple(tensor.shape))).to(tensor.dtype)
                is_constant = tensor.numel() == 1 or bool((tensor == tensor.flatten()[0]).all())
                tensor.copy_(tensor + drawn if is_constant else tensor * (1 + drawn))
    return made


def _is_statistic(name: str) -> bool:
    return name.rpartition(".")[2] in ("running_mean", "running_var")
