"""Build a model directly onto a mesh: each device gets only its shards, and no array is ever whole on one device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from port.errors import WeightsMismatch
from port.nn.logical_axes import Rules, check_mesh, chosen_rules, heads_left_whole, names_of, shardings_by_rules
from port.nn.saved_weights import names_in_file
from port.nn.unknown_start import filled_later
from port.nn.weights_file import open_weights

Model = TypeVar("Model", bound=nnx.Module)
Part = Callable[[Any], np.ndarray]
"""Reads the part of an array that slices select."""
_LISTED = 5
"""The most variables that a message lists."""


def on_mesh(
    construct: Callable[[], Model],
    mesh: Mesh,
    rules: Rules,
    *,
    given: Rules | None = None,
    parts: Mapping[str, tuple[tuple[int, ...], Part]] | None = None,
) -> Model:
    """Build a model with its parameters sharded over a mesh by their logical axes and the rules.

    Args:
        construct: builds the model; it is traced.
        mesh: the devices.
        rules: the model's rules: logical name → axes of the mesh. See `port.nn.logical_axes.chosen_rules`.
        given: rules that override these.
        parts: dotted path → the shape of an initial array, and a function that reads a part of it; other variables are
            initialised on the devices.

    Raises:
        UnknownChoice, UsageError: rules, or a mesh, with a name that is not known; a mesh without devices.
        WeightsMismatch: a tensor that the mesh does not divide; one that is given in another shape.

    Warns where attention heads stay whole, as the mesh does not divide their number (`port.nn.by_head`).
    """
    check_mesh(mesh)
    found = {} if parts is None else parts
    with filled_later() if found else nullcontext():
        graph, state = nnx.split(nnx.eval_shape(construct))
    variables = {".".join(map(str, path)): (path, variable) for path, variable in nnx.to_flat_state(state)}
    named: dict[str, list[str]] = {}
    for path, (_, variable) in variables.items():
        for name in filter(None, names_of(variable)):
            named.setdefault(name, []).append(path)
    chosen = chosen_rules(rules, given, mesh, named)
    for sentence in heads_left_whole(rules, given, mesh, named).values():
        warnings.warn(sentence, stacklevel=2)
    shardings = shardings_by_rules({path: variable for path, (_, variable) in variables.items()}, mesh, chosen)
    own = [
        path for path, (_, variable) in variables.items() if path in found and not isinstance(variable, nnx.RngState)
    ]
    wrong = [
        f"{path} has shape {found[path][0]}, but {tuple(variables[path][1].shape)} in the model"
        for path in own
        if tuple(found[path][0]) != tuple(variables[path][1].shape)
    ]
    if wrong:
        more = f"; and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
        raise WeightsMismatch(f"the weights belong to another model: {'; '.join(wrong[:_LISTED])}{more}")
    arrays = {path: _placed(found[path], variables[path][1], shardings[path]) for path in own}
    rest = [path for path in variables if path not in arrays]
    if rest:
        with filled_later() if found else nullcontext():
            arrays |= jax.jit(lambda: _drawn(construct, rest), out_shardings={path: shardings[path] for path in rest})()
    made = [(path, variable.replace(arrays[name])) for name, (path, variable) in variables.items()]
    return nnx.merge(graph, nnx.from_flat_state(made))


def load_on_mesh(
    construct: Callable[[], Model], path: str | Path, mesh: Mesh, rules: Rules, given: Rules | None = None
) -> Model:
    """Build a model onto a mesh from a weights file; each device reads only its shards.

    Args:
        construct: builds the model; it is traced.
        path: of a safetensors file. Its names are the variables' paths, or these with their collection in front.
        mesh: the devices.
        rules: the model's rules.
        given: rules that override these.

    Raises:
        UnknownChoice, UsageError: rules or a mesh with an unknown name; a mesh without devices.
        BrokenWeights: it is not a safetensors file.
        WeightsMismatch: the file does not match the model, as in `port.nn.load_weights`, or the mesh does not divide a
            variable evenly.
    """
    check_mesh(mesh)
    with filled_later():
        model = nnx.eval_shape(construct)
    variables = {".".join(map(str, place)): variable for place, variable in nnx.to_flat_state(nnx.state(model))}
    with open_weights(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
        mismatch = f"{path} does not hold the weights of this {type(model).__name__}"
        names = names_in_file(shapes, variables, mismatch)
        parts = {own: (shapes[name], _reader(slices[name])) for own, name in names.items()}
        return on_mesh(construct, mesh, rules, given=given, parts=parts)


def whole(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[tuple[int, ...], Part]]:
    """Wrap arrays in memory as the ``parts`` of `on_mesh`."""
    return {name: (array.shape, array.__getitem__) for name, array in arrays.items()}


def _reader(part: Any) -> Part:
    return lambda index: part[index] if index else part[...]


def _placed(shape_and_part: tuple[tuple[int, ...], Part], variable: Any, sharding: Any) -> jax.Array:
    shape, part = shape_and_part

    def read(index: Any) -> np.ndarray:
        array = np.asarray(part(index))
        same_kind = np.issubdtype(variable.dtype, np.floating) == np.issubdtype(array.dtype, np.floating)
        # A copy: on a CPU the device array might share memory with the weights.
        return np.array(array, dtype=variable.dtype if same_kind else array.dtype)

    return jax.make_array_from_callback(tuple(shape), sharding, read)


def _drawn(construct: Callable[[], nnx.Module], paths: list[str]) -> dict[str, Any]:
    state = {".".join(map(str, path)): each for path, each in nnx.to_flat_state(nnx.state(construct()))}
    return {path: state[path].get_value() for path in paths}
