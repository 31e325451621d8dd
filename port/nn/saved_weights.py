"""Loading a weights file into a model."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
from flax import nnx

from port.errors import WeightsMismatch
from port.nn.buffer import Buffer
from port.nn.per_layer import PerLayer
from port.nn.weights_file import open_weights

_LISTED = 5
"""The most variables that a message lists."""


def load_weights(model: nnx.Module, path: str | Path) -> None:
    """Load all variables of a model, except random streams and `PerLayer` numbers.

    Args:
        model: changed in place; unchanged if something does not match.
        path: of a safetensors file. Its names are the variables' paths, ``blocks.0.norm.scale``, or these with their
            collection in front, as ``port convert`` writes them, ``params.blocks.0.norm.scale``. In the second case a
            buffer may be missing, as PyTorch's state dicts leave some out; it then keeps its initial value.

    Raises:
        BrokenWeights: it is not a safetensors file.
        WeightsMismatch: variables that are missing in the file, or have another shape there.
    """
    with open_weights(path) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    flat = nnx.to_flat_state(nnx.state(model, nnx.Not(nnx.Any(nnx.RngState, PerLayer))))
    variables = {".".join(map(str, place)): (place, variable) for place, variable in flat}
    if not arrays.keys() & variables.keys():
        arrays = {name.partition(".")[2]: array for name, array in arrays.items()}
        own = {name for name, (_, variable) in variables.items() if isinstance(variable, Buffer)} - arrays.keys()
        variables = {name: found for name, found in variables.items() if name not in own}
    wrong = []
    for name, (_, variable) in variables.items():
        if name not in arrays:
            wrong.append(f"{name} is missing")
        elif arrays[name].shape != variable.shape:
            wrong.append(f"{name} has shape {arrays[name].shape} in it, but {variable.shape} in the model")
    if wrong:
        more = f"; and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
        raise WeightsMismatch(
            f"{path} does not hold the weights of this {type(model).__name__}: {'; '.join(wrong[:_LISTED])}{more}"
        )
    filled = [(place, jnp.asarray(arrays[name], variable.dtype)) for name, (place, variable) in variables.items()]
    nnx.update(model, nnx.from_flat_state(filled))
