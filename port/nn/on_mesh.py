"""A model built straight onto a mesh: each device gets its own parts of every array, and nothing is whole anywhere."""

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
from port.nn.buffer import Buffer
from port.nn.logical_axes import Rules, chosen_rules, heads_left_whole, names_of, shardings_by_rules
from port.nn.per_layer import PerLayer
from port.nn.unknown_start import filled_later

Model = TypeVar("Model", bound=nnx.Module)
Part = Callable[[Any], np.ndarray]
"""A part of an array, by slices."""
_TOLD = 5
"""Variables that a message names."""


def on_mesh(
    construct: Callable[[], Model],
    mesh: Mesh,
    rules: Rules,
    *,
    given: Rules | None = None,
    parts: Mapping[str, tuple[tuple[int, ...], Part]] | None = None,
) -> Model:
    """A model whose parameters lie on a mesh as their logical axes and the rules say.

    Args:
        construct: makes it; it is traced.
        mesh: the devices.
        rules: the model's own: logical name → axes of the mesh. See `port.nn.logical_axes.chosen_rules`.
        given: others, which go before these.
        parts: dotted path → the shape of an array that is given, and what reads a part of it; what is not among them
            is drawn, on the devices.

    Raises:
        UnknownChoice, UsageError: rules, or a mesh, with a name that is not known.
        WeightsMismatch: a tensor that the mesh does not divide; one that is given in another shape.

    Warns where attention heads stay whole, as the mesh does not divide their number (`port.nn.by_head`).
    """
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
        f"{path} has the shape {found[path][0]}, and {tuple(variables[path][1].shape)} in the model"
        for path in own
        if tuple(found[path][0]) != tuple(variables[path][1].shape)
    ]
    if wrong:
        more = f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
        raise WeightsMismatch(f"the weights are of another model: {'; '.join(wrong[:_TOLD])}{more}")
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
    """A model on a mesh with the arrays of a weights file, of which each part is read by itself.

    Args:
        construct: makes the model; it is traced.
        path: of a safetensors file whose names are the variables' paths, or have their kinds before these.
        mesh: the devices.
        rules: the model's own.
        given: others, which go before these.

    Raises:
        UnknownChoice, UsageError: rules, or a mesh, with a name that is not known.
        WeightsMismatch: variables that are not in the file, have another shape there, or are not divided by the mesh.
    """
    from safetensors import safe_open

    with filled_later():
        flat = nnx.to_flat_state(nnx.state(nnx.eval_shape(construct), nnx.Not(nnx.Any(nnx.RngState, PerLayer))))
    variables = {".".join(map(str, place)): variable for place, variable in flat}
    with safe_open(path, "numpy") as file:
        names = {name: name for name in file.keys()}  # noqa: SIM118
        if not names.keys() & variables.keys():
            names = {name.partition(".")[2]: name for name in names}
            variables = {name: one for name, one in variables.items() if name in names or not isinstance(one, Buffer)}
        if lost := [name for name in variables if name not in names]:
            raise WeightsMismatch(
                f"{path} does not hold the weights of this model: {', '.join(lost[:_TOLD])} not in it"
            )
        slices = {name: file.get_slice(names[name]) for name in variables}
        parts = {name: (tuple(part.get_shape()), _reader(part)) for name, part in slices.items()}
        return on_mesh(construct, mesh, rules, given=given, parts=parts)


def whole(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[tuple[int, ...], Part]]:
    """Arrays of this process as `on_mesh` takes them."""
    return {name: (array.shape, array.__getitem__) for name, array in arrays.items()}


def _reader(part: Any) -> Part:
    return lambda index: part[index] if index else part[...]


def _placed(given: tuple[tuple[int, ...], Part], variable: Any, sharding: Any) -> jax.Array:
    shape, part = given

    def read(index: Any) -> np.ndarray:
        array = np.asarray(part(index))
        same_kind = np.issubdtype(variable.dtype, np.floating) == np.issubdtype(array.dtype, np.floating)
        # A copy: a device of this process's might share memory with the weights.
        return np.array(array, dtype=variable.dtype if same_kind else array.dtype)

    return jax.make_array_from_callback(tuple(shape), sharding, read)


def _drawn(construct: Callable[[], nnx.Module], paths: list[str]) -> dict[str, Any]:
    state = {".".join(map(str, path)): each for path, each in nnx.to_flat_state(nnx.state(construct()))}
    return {path: state[path].get_value() for path in paths}
