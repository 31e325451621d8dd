"""Stacking layers of equal structure along a new first axis, for `nnx.scan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, cast

import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.dropout import Dropping
from port.nn.layer_dropout import LayerDropout
from port.nn.per_layer import PerLayer

Layer = TypeVar("Layer", bound=nnx.Module)
Path = tuple[Any, ...]
LAYERS = "layers"
"""The logical name of the layer axis."""
_LISTED = 4
"""The most layers whose values a message lists."""


def stacked(layers: Iterable[Layer] | nnx.Sequential) -> Layer:
    """Stack layers of equal structure into one layer, whose arrays have a new first axis over the layers.

    Numbers in which they differ become `PerLayer`. A random stream that they share is split into one for each.

    Args:
        layers: one or more, in a list, an `nnx.List` or an `nnx.Sequential`.

    Returns:
        A layer of their class, to be called under ``nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)``.

    Raises:
        UsageError: no layers, layers that share a variable, or that differ in more than numbers; the message says
            where.
    """
    layer_list = _list_of(layers)
    if not layer_list:
        raise UsageError("a stack needs at least one layer, got none")
    parts = [dict(_parts(layer)) for layer in layer_list]
    numbers = _numbers(parts)
    states = [dict(nnx.to_flat_state(nnx.split(layer)[1])) for layer in layer_list]
    streams = _own_streams(parts)
    made = {}
    for path, variable in states[0].items():
        if path in streams:
            made[path] = variable.replace(streams[path])
            continue
        arrays = [state[path] for state in states]
        values = [array.get_value() if isinstance(array, nnx.Variable) else array for array in arrays]
        array = jnp.stack(values)
        made[path] = _with_layers(variable, array) if isinstance(variable, nnx.Variable) else array
    stack = nnx.merge(nnx.graphdef(layer_list[0]), nnx.from_flat_state(list(made.items())))
    for place, values in numbers.items():
        holder = _at(stack, place[:-1])
        if isinstance(holder, nnx.Dropout | Dropping) and {0, 1} & {*values}:
            raise _differ(f"{_said(place)} is {_listed(map(repr, values))}, and a dropout of rate 0 or 1 draws nothing")
        own: PerLayer[Any] = PerLayer(jnp.asarray(values, _dtype(values, layer_list[0])), numbers=tuple(values))
        setattr(holder, place[-1], nnx.data(own))
        if isinstance(holder, nnx.Dropout):
            _set(stack, place[:-1], _layer_dropout(holder))
    return cast("Layer", stack)


def _with_layers(variable: Any, array: Any) -> Any:
    """Replace a variable's array by the stack's; name its first axis if the others have names."""
    names = variable.get_metadata("out_sharding", None)
    return variable.replace(array, **({"out_sharding": (LAYERS, *names)} if names else {}))


def partly_stacked(
    layers: Iterable[nnx.Module] | nnx.Sequential, *, before: int = 0, after: int = 0
) -> nnx.List[nnx.Module]:
    """Stack a run of consecutive layers with `stacked`, and keep the others: a list with the stack in the middle.

    Args:
        layers: a list, an `nnx.List` or an `nnx.Sequential`.
        before: number of layers before the run.
        after: number of layers after it.

    Raises:
        UsageError: no layers in the run, or layers that cannot be stacked.
    """
    layer_list = _list_of(layers)
    end = len(layer_list) - after
    return nnx.List([*layer_list[:before], stacked(layer_list[before:end]), *layer_list[max(end, before) :]])


def _list_of(layers: Iterable[Any] | nnx.Sequential) -> list[Any]:
    return list(layers.layers if isinstance(layers, nnx.Sequential) else layers)


def _parts(part: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield all parts of a layer with their paths: modules, variables and plain values."""
    yield path, part
    match part:
        case nnx.Variable():
            return  # its metadata is compared with its type
        case nnx.Pytree():
            own = vars(part).items()
            inside: dict[Any, Any] = {name: value for name, value in own if not name.startswith("_pytree__")}
        case dict():
            inside = part
        case list() | tuple():
            inside = dict(enumerate(part))
        case _:
            return
    for name, value in inside.items():
        yield from _parts(value, (*path, name))


def _numbers(parts: Sequence[Mapping[Path, Any]]) -> dict[Path, list[Any]]:
    """Return the numbers in which layers differ.

    Raises:
        UsageError: they differ in something else.
    """
    found: dict[Path, list[Any]] = {}
    first = parts[0]
    for number, other in enumerate(parts):
        if lost := first.keys() ^ other.keys():
            path = min(lost, key=str)
            lacks = number if path in first else 0
            raise _differ(f"layer {lacks} has no {_said(path)}, but layer {number - lacks} has")
    for path, one in first.items():
        values = [each[path] for each in parts]
        if isinstance(one, nnx.Variable):
            _check_variables(path, values)
        elif isinstance(one, nnx.Pytree | dict | list | tuple) or _is_array(one):
            kinds = [_kind(value) for value in values]
            if len(set(kinds)) > 1:
                raise _differ(f"{_said(path)} is {_listed(kinds)}")
        elif not all(_alike(one, value) for value in values):
            is_named = path and isinstance(path[-1], str)
            if not is_named or not all(type(value) in (int, float) for value in values):
                raise _differ(f"{_said(path)} is {_listed(map(repr, values))}")
            found[path] = values
    return found


def _check_variables(path: Path, variables: Sequence[Any]) -> None:
    kinds = [f"{type(variable).__name__} {_kind(variable)}" for variable in variables]
    if len(set(kinds)) > 1:
        raise _differ(f"{_said(path)} is {_listed(kinds)}")
    numbers = {variable.numbers for variable in variables if isinstance(variable, PerLayer)}
    if len(numbers) > 1:
        raise _differ(f"{_said(path)} is {_listed(map(repr, sorted(numbers)))} in inner stacks")
    is_shared = len({id(variable) for variable in variables}) < len(variables)
    if is_shared and not isinstance(variables[0], nnx.RngState):
        raise UsageError(
            "each layer of a stack has its own variables, but these layers share one: "
            f"{_said(path)} belongs to several layers"
        )


def _own_streams(parts: Sequence[Mapping[Path, Any]]) -> dict[Path, Any]:
    """Return the split state of random streams that layers share, with a key for each layer."""
    found: dict[Path, Any] = {}
    for path, stream in parts[0].items():
        if not isinstance(stream, nnx.RngStream):
            continue
        keys = {id(each[path].key) for each in parts}
        if len(keys) < len(parts):
            own = stream.split(len(parts))
            found |= {(*path, "key"): own.key.get_value(), (*path, "count"): own.count.get_value()}
    return found


def _alike(one: Any, other: Any) -> bool:
    """Return whether two constants are equivalent; functions are if their code and closures are."""
    match one, other:
        case partial(), partial():
            return _alike(one.func, other.func) and _all_alike((one.args, one.keywords), (other.args, other.keywords))
        case FunctionType(), FunctionType():
            held = [[cell.cell_contents for cell in each.__closure__ or ()] for each in (one, other)]
            return one.__code__ is other.__code__ and _all_alike((*held[0],), (*held[1],))
        case (tuple() | list(), tuple() | list()) | (dict(), dict()):
            return _all_alike(one, other)
    return type(one) is type(other) and (one is other or bool(one == other))


def _all_alike(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or len(one) != len(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(value, other[name]) for name, value in one.items())
    return all(map(_alike, one, other))


def _dtype(values: Sequence[Any], layer: nnx.Module) -> Any:
    """Return a dtype for numbers in a stack: it is strong, so it must not be wider than the layer's computation."""
    if all(type(value) is int for value in values):
        return int
    parts = [part for _, part in _parts(layer)]
    computed = [getattr(part, "dtype", None) for part in parts if isinstance(part, nnx.Module)]
    held = [part.dtype for part in parts if isinstance(part, nnx.Param)]
    known = [dtype for dtype in [*computed, *held] if dtype is not None]
    return next((dtype for dtype in known if jnp.issubdtype(dtype, jnp.floating)), float)


def _layer_dropout(dropout: nnx.Dropout) -> LayerDropout:
    """Convert a dropout to one that reads its rate for each layer."""
    made = nnx.clone(dropout)
    made.__class__ = LayerDropout
    return cast("LayerDropout", made)


def _set(node: Any, path: Path, part: Any) -> None:
    """Replace the part at a path."""
    holder, name = _at(node, path[:-1]), path[-1]
    if isinstance(holder, nnx.List) and str(name).isdigit():
        holder[int(name)] = part
    else:
        setattr(holder, name, part)


def _at(node: Any, path: Path) -> Any:
    for name in path:
        node = node[name] if isinstance(name, int) else getattr(node, name)
    return node


def _is_array(value: Any) -> bool:
    # `nnx.Rngs` has an attribute of any name.
    return not isinstance(value, nnx.Pytree) and hasattr(value, "shape") and hasattr(value, "dtype")


def _kind(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if _is_array(value) else type(value).__name__


def _said(path: Path) -> str:
    return ".".join(map(str, path)) or "the layer"


def _listed(values: Iterable[str]) -> str:
    shown = list(values)
    return ", ".join(shown[:_LISTED]) + (", …" if len(shown) > _LISTED else "")


def _differ(what: str) -> UsageError:
    return UsageError(f"stacked layers may differ only in numbers, but these differ in more: {what}")
