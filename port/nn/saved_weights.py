"""Loading a weights file into a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from flax import nnx

from port.errors import WeightsMismatch
from port.nn.buffer import Buffer
from port.nn.collection_names import collection_of
from port.nn.per_layer import PerLayer
from port.nn.weights_file import open_weights

_LISTED = 5
"""The most variables that a message lists."""
_COLLECTIONS = ("params", "Frozen", "batch_stats", "buffers", "Buffer")
"""First words of names in files of ``port convert``, besides the collections of the model's own variables."""
_PARAMETERS = ("params.", "Frozen.")
_BESIDE = ("torch_only", "opt_state", "step")
"""What ``port convert`` writes beside a model's variables: PyTorch's own tensors, and an optimizer's state."""


def load_weights(model: nnx.Module, path: str | Path) -> None:
    """Load all variables of a model, except random streams and `PerLayer` numbers.

    Args:
        model: changed in place; unchanged if something does not match.
        path: of a safetensors file. Its names are the variables' paths, ``blocks.0.norm.scale``, or these with their
            collection in front, as ``port convert`` writes them, ``params.blocks.0.norm.scale``. In the second case a
            buffer may be missing, as PyTorch's state dicts leave some out; it then keeps its initial value.

    Raises:
        BrokenWeights: it is not a safetensors file.
        WeightsMismatch: variables that are missing in the file or have another shape there, and variables in the file
            that the model does not have, except buffers in a file of ``port convert``; one message for all.
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
        variables: dotted path → variable, for all variables of the model.
        mismatch: the message's first words.

    Raises:
        WeightsMismatch: as `load_weights`.
    """
    names, loaded = {name: name for name in shapes}, _saved(variables)
    own_names = _without_collections(shapes, variables)
    if own_names is not None and len(own_names.keys() & loaded.keys()) >= len(names.keys() & loaded.keys()):
        # PyTorch's state dict may lack buffers of the model, and have others that only PyTorch's model needs.
        loaded = {own: one for own, one in loaded.items() if own in own_names or not isinstance(one, Buffer)}
        names = {own: name for own, name in own_names.items() if own in loaded or name.startswith(_PARAMETERS)}
    wrong = []
    for own, variable in loaded.items():
        if own not in names:
            wrong.append(f"{own} is missing")
        elif tuple(shapes[names[own]]) != variable.shape:
            wrong.append(f"{own} has shape {tuple(shapes[names[own]])} in it, but {variable.shape} in the model")
    wrong += [f"the model has no {name}" for own, name in names.items() if own not in variables]
    if wrong:
        others = f"; and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
        raise WeightsMismatch(f"{mismatch}: {'; '.join(wrong[:_LISTED])}{others}")
    return {own: names[own] for own in loaded}


def _saved(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {own: one for own, one in variables.items() if not isinstance(one, (nnx.RngState, PerLayer))}


def _without_collections(names: Iterable[str], variables: Mapping[str, Any]) -> dict[str, str] | None:
    """Name without its collection → name, if all names of a file begin with one; None otherwise."""
    collections = {*_COLLECTIONS, *map(collection_of, variables.values())}
    found: dict[str, str] = {}
    for name in names:
        collection, _, own = name.partition(".")
        if collection in _BESIDE:
            continue
        if collection not in collections or own in found:
            return None
        found[own] = name
    return found
