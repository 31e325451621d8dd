"""A torch module's weights, as numpy arrays under the names of its state dict."""

from __future__ import annotations

from collections.abc import Mapping as Arrays

import numpy as np
import torch

from port.errors import WeightsMismatch


def arrays_of(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """The module's state dict as numpy arrays of their own memory."""
    return {name: as_numpy(tensor) for name, tensor in module.state_dict().items()}


def fill(module: torch.nn.Module, arrays: Arrays[str, np.ndarray]) -> None:
    """Put named arrays into the module, in place, each in the dtype that the module has there.

    Raises:
        WeightsMismatch: missing, unexpected or mis-shaped keys: all of them in one message; nothing is filled.
    """
    own = module.state_dict()
    complaints = [f"missing: {key}" for key in sorted(set(own) - set(arrays))]
    complaints += [f"unexpected: {key}" for key in sorted(set(arrays) - set(own))]
    complaints += [
        f"{key} of shape {arrays[key].shape}, the model has {tuple(own[key].shape)}"
        for key in sorted(set(own) & set(arrays))
        if tuple(own[key].shape) != arrays[key].shape
    ]
    if complaints:
        raise WeightsMismatch("the weights do not fit the model:\n  " + "\n  ".join(complaints))
    module.load_state_dict({name: _as_torch(array) for name, array in arrays.items()})


CONTROL_UNITS = 128
"""How far a control's float32 initial weights are moved, in units in the last place: by up to 1.5e-5 of each.

One unit is the rounding of one number. A right port differs by more from the first step on: every sum is rounded in
another order, and some constants are less exact. optax computes Adam's bias correction 1 − 0.999^t in float32, off by
1.3e-5 (torch computes it in double); that size is taken. Controls moved by one unit lose their way so much later than
right JAX runs do that many of these look wrong beside them: `port.records.limits` has the counts.
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


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A copy as numpy, from any device; bfloat16 as ml_dtypes' bfloat16, which jax and safetensors know too."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().copy().view(ml_dtypes.bfloat16)
    return tensor.numpy().copy()


def _as_torch(array: np.ndarray) -> torch.Tensor:
    """A copy as a tensor; the other way round."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))
