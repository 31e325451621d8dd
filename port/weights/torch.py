"""A torch module's weights, as numpy arrays under the names of its state dict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from port.errors import WeightsMismatch
from port.mapping.names import nearest
from port.weights.sources import Source
from port.weights.torch_arrays import as_numpy, as_torch


def arrays_of(module: torch.nn.Module | Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """The module's state dict, or what is one, as numpy arrays of their own memory."""
    tensors = module if isinstance(module, Mapping) else module.state_dict()
    return {name: as_numpy(tensor) for name, tensor in tensors.items()}


def fill(module: torch.nn.Module, source: Source) -> None:
    """Put named tensors into the module, in place, each in the dtype that the module has there.

    Of tied tensors one is enough, as files of the hub hold them.

    Raises:
        WeightsMismatch: missing, unexpected or mis-shaped keys: all of them in one message; nothing is filled.
    """
    own = {name: tensor for name, tensor in module.state_dict().items() if hasattr(tensor, "shape")}
    missing = {key for key in set(own) - set(source) if not key.endswith("num_batches_tracked")}  # as torch has it
    tied = _other_names(module) if missing else {}
    missing -= {key for key in missing if tied.get(key, set()) & set(source)}
    unexpected = set(source) - set(own)
    complaints = [f"missing: {key}{nearest(key, unexpected)}" for key in sorted(missing)]
    complaints += [f"unexpected: {key}{nearest(key, missing)}" for key in sorted(unexpected)]
    complaints += [
        f"{key} has shape {source.shapes[key]}, needed is {tuple(own[key].shape)}"
        for key in sorted(set(own) & set(source))
        if tuple(own[key].shape) != source.shapes[key]
    ]
    if complaints:
        raise WeightsMismatch("the weights do not fit the model:\n  " + "\n  ".join(complaints))
    state = {name: _laid_out(as_torch(source[name]), own.get(name)) for name in source}
    module.load_state_dict(with_versions(state, module), strict=False)


def _other_names(module: torch.nn.Module) -> dict[str, set[str]]:
    """Of each parameter that has several names the others, by each of them."""
    names: dict[int, set[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), set()).add(name)
    return {name: alike - {name} for alike in names.values() if len(alike) > 1 for name in alike}


def _laid_out(tensor: torch.Tensor, like: torch.Tensor | None) -> torch.Tensor:
    """A dense tensor as the module holds it: sparse, if it does."""
    return tensor if like is None or like.layout is torch.strided else tensor.to_sparse(layout=like.layout)


def with_versions(state: dict[str, Any], module: torch.nn.Module) -> dict[str, Any]:
    """A state dict that says, as the module's own does, in which version of its layout each layer is.

    Without it layers take a state dict for an old one; torchvision's MNASNet refuses it.
    """
    versions = getattr(module.state_dict(), "_metadata", None)
    if versions is None:
        return state
    versioned = OrderedDict(state)
    versioned._metadata = versions  # type: ignore[attr-defined]
    return versioned


CONTROL_UNITS = 128
"""How far a control's float32 initial weights are moved, in units in the last place: by up to 1.5e-5 of each.

One unit is the rounding of one number. A right port differs by more from the first step on: every sum is rounded in
another order, and some constants are less exact. optax computes Adam's bias correction 1 − 0.999^t in float32, off by
1.3e-5 (torch computes it in double); that size is taken. Controls moved by one unit lose their way so much later than
right JAX runs do that many of these look wrong beside them: `port.judging.limits` has the counts.
"""


def move_last_places(module: torch.nn.Module, seed: int, *, units: int | None = None) -> None:
    """Move every parameter in its last places, up or down at random: a control's initial weights.

    In place, in the parameter's own dtype: by ``units``, if not given by `CONTROL_UNITS`, or by one unit in half
    precision, whose units are larger than all else. Draws from a generator of its own.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            magnitude = parameter.abs()
            unit = torch.nextafter(magnitude, torch.full_like(magnitude, torch.inf)) - magnitude
            step = unit * (units or (CONTROL_UNITS if parameter.dtype in (torch.float32, torch.float64) else 1))
            up = torch.rand(parameter.shape, generator=generator).to(parameter.device) < 0.5
            parameter.add_(torch.where(up, step, -step))
