"""A torch module's weights, as numpy arrays under the names of its state dict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from port.errors import WeightsMismatch
from port.mapping.names import nearest
from port.visible import visible
from port.weights.sources import Source
from port.weights.torch_arrays import as_numpy, as_torch


def arrays_of(module: torch.nn.Module | Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Return the module's state dict, or a state dict, as numpy arrays with separate memory."""
    tensors = module if isinstance(module, Mapping) else module.state_dict()
    return {name: as_numpy(tensor) for name, tensor in tensors.items()}


def fill(module: torch.nn.Module, source: Source) -> None:
    """Load named tensors into the module, in place, keeping the module's dtypes.

    One of several tied tensors is enough, as in files of the hub.

    Raises:
        WeightsMismatch: missing, unexpected or mis-shaped keys: all of them in one message; nothing is filled.
    """
    own = {name: tensor for name, tensor in module.state_dict().items() if hasattr(tensor, "shape")}
    missing = {key for key in set(own) - set(source) if not key.endswith("num_batches_tracked")}  # as in torch
    tied = _other_names(module) if missing else {}
    missing -= {key for key in missing if tied.get(key, set()) & set(source)}
    unexpected = set(source) - set(own)
    complaints = [f"missing: {key}{nearest(key, unexpected)}" for key in sorted(missing)]
    complaints += [f"unexpected: {key}{nearest(key, missing)}" for key in sorted(unexpected)]
    complaints += [
        f"{key} has shape {source.shapes[key]}, expected {tuple(own[key].shape)}"
        for key in sorted(set(own) & set(source))
        if tuple(own[key].shape) != source.shapes[key]
    ]
    if complaints:
        raise WeightsMismatch("the weights do not fit the model:\n  " + "\n  ".join(map(visible, complaints)))
    state = {name: _laid_out(as_torch(source[name]), own.get(name)) for name in source}
    module.load_state_dict(with_versions(state, module), strict=False)


def _other_names(module: torch.nn.Module) -> dict[str, set[str]]:
    """For each name of a parameter with several names, the other names."""
    names: dict[int, set[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), set()).add(name)
    return {name: alike - {name} for alike in names.values() if len(alike) > 1 for name in alike}


def _laid_out(tensor: torch.Tensor, like: torch.Tensor | None) -> torch.Tensor:
    """Convert a dense tensor to the module's layout: sparse, if it is."""
    return tensor if like is None or like.layout is torch.strided else tensor.to_sparse(layout=like.layout)


def with_versions(state: dict[str, Any], module: torch.nn.Module) -> dict[str, Any]:
    """A state dict with each layer's version of its layout, as the module's own has.

    Without versions layers take a state dict for an old one; torchvision's MNASNet rejects it.
    """
    versions = getattr(module.state_dict(), "_metadata", None)
    if versions is None:
        return state
    versioned = OrderedDict(state)
    versioned._metadata = versions  # type: ignore[attr-defined]
    return versioned


CONTROL_UNITS = 128
"""How far a control's float32 initial weights are perturbed, in units in the last place: by up to 1.5e-5 of each.

One unit is the rounding of one number. A correct port differs by more from the first step on: every sum is rounded in
another order, and some constants are less exact. optax computes Adam's bias correction 1 − 0.999^t in float32, off by
1.3e-5 (torch computes it in double); that size is used. Controls perturbed by one unit diverge so much later than
correct JAX runs that many of these look wrong in comparison: `port.judging.limits` has the counts.
"""


def move_last_places(module: torch.nn.Module, seed: int, *, units: int | None = None) -> None:
    """Perturb every parameter in its last places, up or down at random: a control's initial weights.

    In place, in the parameter's own dtype: by ``units``, by default `CONTROL_UNITS`, or by one unit in half precision,
    whose units are larger than all else. Draws from a separate generator.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            magnitude = parameter.abs()
            unit = torch.nextafter(magnitude, torch.full_like(magnitude, torch.inf)) - magnitude
            step = unit * (units or (CONTROL_UNITS if parameter.dtype in (torch.float32, torch.float64) else 1))
            up = torch.rand(parameter.shape, generator=generator).to(parameter.device) < 0.5
            parameter.add_(torch.where(up, step, -step))
