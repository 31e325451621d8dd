"""Builds the guide of an nnx module. Values are not read: one made by `nnx.eval_shape` works. Imports no torch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from port.mapping.guide import Guide, Layer, Leaf
from port.pairs import LayerPair, ParamPair, name_of, pairs_of_flax

if TYPE_CHECKING:
    from flax import nnx


def nnx_guide(module: nnx.Module) -> Guide:
    """Build the guide of an nnx module: its layers, and the paths, shapes, dtypes and kinds of its variables.

    A variable that is shared is one leaf, under its first path. Random streams are not weights.
    """
    from flax import nnx

    from port.nn.collection_names import collection_of

    leaves = {}
    for path, variable in nnx.to_flat_state(nnx.state(module, weights_filter())):
        name = dotted(path)
        leaves[name] = Leaf(name, tuple(variable.shape), str(variable.dtype), collection_of(variable))
    # Inner modules come first; a shared module is listed at its first path only.
    modules = sorted(nnx.iter_modules(module), key=lambda item: len(item[0]))
    containers = {dotted(path) for path, layer in modules if isinstance(layer, nnx.Sequential)}
    return Guide("flax", leaves, tuple(_layer(dotted(path), layer, containers) for path, layer in modules))


def weights_filter() -> Any:
    """A filter for the variables that are weights: not random streams, caches or intermediates."""
    from flax import nnx

    from port.nn.per_layer import PerLayer

    return nnx.Not(nnx.Any(nnx.RngState, nnx.Cache, nnx.Intermediate, nnx.Perturbation, PerLayer))


def dotted(path: tuple[Any, ...]) -> str:
    """A path as torch writes it: ("layers", 0, "weight") → "layers.0.weight"."""
    return ".".join(map(str, path))


def _layer(path: str, module: nnx.Module, containers: set[str]) -> Layer:
    pairs = tuple(pairs_of_flax(module))
    return Layer(
        path,
        name_of(type(module)),
        pairs,
        partial(_params, module),
        not pairs and _is_library(module),
        _in_torch(path, containers),
    )


def _in_torch(path: str, containers: set[str]) -> str:
    """The path without the ``layers`` attribute that nnx.Sequential has and torch's lacks."""
    parts = path.split(".")
    kept = [part for place, part in enumerate(parts) if part != "layers" or ".".join(parts[:place]) not in containers]
    return ".".join(kept)


def _params(module: nnx.Module, pair: LayerPair) -> tuple[ParamPair, ...]:
    return pair.params_of_flax(module)


def _is_library(module: nnx.Module) -> bool:
    """Whether a module is, or inherits from, a library's layer: its parameters then have that layer's layout."""
    from flax import nnx

    if isinstance(module, nnx.List | nnx.Dict | nnx.Sequential):
        return False
    return any(
        cls.__module__.partition(".")[0] in ("flax", "port") and not issubclass(nnx.Module, cls)
        for cls in type(module).__mro__
    )
