"""Loading a weights file into a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
        WeightsMismatch: variables that are missing in the file or have another shape there, and parameters in the file
            that the model does not have; one message for all.
    """
    with open_weights(path) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    flat = {".".join(map(str, place)): (place, variable) for place, variable in nnx.to_flat_state(nnx.state(model))}
    variables = {name: variable for name, (_, variable) in flat.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    names = names_in_file(shapes, variables, f"{path} does not hold the weights of this {type(model).__name__}")
    filled = [(flat[own][0], jnp.asarray(arrays[name], variables[own].dtype)) for own, name in names.items()]
    nnx.update(model, nnx.from_flat_state(filled))


def names_in_file(shapes: Mapping[str, Sequence[int]], variables: Mapping[str, Any], mismatch: str) -> dict[str, str]:
    """Find a model's variables in a weights file: dotted path → name in the file.

    Args:
        shapes: the file's names → shapes; for the names see `load_weights`.
        variables: dotted path → variable, of all that the model has.
        mismatch: the message's first words.

    Raises:
        WeightsMismatch: as `load_weights`.
    """
    names = {name: name for name in shapes}
    loaded = {own: one for own, one in variables.items() if not isinstance(one, (nnx.RngState, PerLayer))}
    is_converted = not names.keys() & variables.keys()
    if is_converted:
        names = {name.partition(".")[2]: name for name in shapes}
        loaded = {own: one for own, one in loaded.items() if own in names or not isinstance(one, Buffer)}
    wrong = []
    for own, variable in loaded.items():
        if own not in names:
            wrong.append(f"{own} is missing")
        elif tuple(shapes[names[own]]) != variable.shape:
            wrong.append(f"{own} has shape {tuple(shapes[names[own]])} in it, but {variable.shape} in the model")
    more = [name for own, name in names.items() if own not in variables]
    # A state dict may hold buffers that only PyTorch's model needs.
    wrong += [f"the model has no {name}" for name in more if not is_converted or name.startswith("params.")]
    if wrong:
        others = f"; and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
        raise WeightsMismatch(f"{mismatch}: {'; '.join(wrong[:_LISTED])}{others}")
    return {own: names[own] for own in loaded}
