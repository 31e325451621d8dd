"""From a module to its mapping, through the pairs of its layers."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from port.errors import NoPair
from port.mapping import Entry, Mapping
from port.pairs.layers import LAYERS
from port.pairs.pair import LayerPair

if TYPE_CHECKING:
    from flax import nnx


def mapping_from_flax(module: nnx.Module) -> Mapping:
    """The mapping from a torch twin's state dict to this module, known from this module alone.

    A layer that a pair speaks of is mapped by its pair. A parameter that a module of one's own, or a container of
    it, holds directly has the same key and the same layout on both sides. Random streams are no weights.

    Args:
        module: any nnx module whose attributes are named as its torch twin's.

    Returns:
        state-dict keys → dotted paths of the module's variables.

    Raises:
        NoPair: a library's layer holds parameters and no pair speaks of it, or of one of them.
    """
    from flax import nnx

    layers = dict(nnx.iter_modules(module))
    weights = nnx.to_flat_state(nnx.state(module, nnx.Not(nnx.RngState)))
    return Mapping(tuple(_entry(path, layers) for path, _ in weights))


def dotted(path: tuple[Any, ...]) -> str:
    """A path as torch writes it: ("layers", 0, "weight") → "layers.0.weight"."""
    return ".".join(map(str, path))


def _entry(path: tuple[Any, ...], layers: dict[tuple[Any, ...], nnx.Module]) -> Entry:
    # The innermost module around it: a plain dict or tuple of a module's is no module.
    depth = max(depth for depth in range(len(path)) if path[:depth] in layers)
    layer, name, target = layers[path[:depth]], dotted(path[depth:]), dotted(path)
    pair = _pair_of(layer)
    if pair is not None:
        for param in pair.params:
            if param.flax == name:
                return Entry(dotted((*path[:depth], param.torch)), target, param.moves)
        raise NoPair(f"the pair of {pair.torch} and {pair.flax} says nothing of {name!r}, which {target} is")
    library = _library_class(layer)
    if library is not None:
        inherited = f", a {_name(library)} that is called otherwise" if library is not type(layer) else ""
        raise NoPair(
            f"no pair speaks of {_name(type(layer))}{inherited}, so what {target} corresponds "
            f"to is not known; the layers with a pair are: {', '.join(sorted({pair.flax for pair in LAYERS}))}"
        )
    return Entry(target, target)


def _pair_of(layer: nnx.Module) -> LayerPair | None:
    """The pair of a layer's class, or of the class that it inherits its ``__call__`` from."""
    called = _call_of(type(layer))
    for cls in type(layer).__mro__:
        if _call_of(cls) is not called:
            return None
        for pair in LAYERS:
            if _resolve(pair.flax) is cls and pair.is_twin(layer):
                return pair
    return None


def _call_of(cls: type) -> Any:
    return next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)


def _library_class(layer: nnx.Module) -> type | None:
    """The library's class that a layer is of or inherits from, and whose layout its parameters therefore have."""
    from flax import nnx

    if isinstance(layer, nnx.List | nnx.Dict):
        return None
    for cls in type(layer).__mro__:
        if cls.__module__.partition(".")[0] in ("flax", "port") and not issubclass(nnx.Module, cls):
            return cls
    return None


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@cache
def _resolve(name: str) -> type:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)
