"""Builds the guide of a Linen module, by tracing it with an example input, and of a bare tree of variables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from port.errors import UsageError
from port.mapping.entry import TORCH_ONLY
from port.mapping.guide import Guide, Layer, Leaf
from port.mapping.nnx_guide import dotted
from port.pairs import LayerPair, ParamPair, name_of, pairs_of_flax

if TYPE_CHECKING:
    from flax import linen


def linen_guide(module: linen.Module, inputs: Any) -> Guide:
    """Build the guide of a Linen module: the class at each path, and its variables' shapes. Nothing is computed.

    Args:
        module: a Linen module, unbound.
        inputs: an example input, or a tuple of its arguments; arrays or `jax.ShapeDtypeStruct`.
    """
    import jax
    from flax import linen

    if inputs is None:
        raise UsageError(
            f"{name_of(type(module))} is a Linen module: its parameters have names and shapes only for an input; "
            "pass an example input (--input 1,32,32,3 on the command line, inputs=… in Python)"
        )
    seen: dict[tuple[str, ...], Any] = {}

    def note(run: Any, args: Any, kwargs: Any, context: Any) -> Any:
        if is_bound(context.module):
            seen.setdefault(context.module.path, context.module)
        return run(*args, **kwargs)

    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    # A flag (`train`) is not an array: the module branches on it.
    traced = {place: value for place, value in enumerate(arguments) if not isinstance(value, bool | str)}

    def initialise(key: Any, traced: dict[int, Any]) -> Any:
        with linen.intercept_methods(note):
            return module.init(key, *(traced.get(place, value) for place, value in enumerate(arguments)))

    variables = jax.eval_shape(initialise, jax.random.key(0), traced)
    outer_first = sorted(seen.items(), key=lambda item: len(item[0]))
    layers = tuple(_layer(dotted(path), layer) for path, layer in outer_first)
    return Guide("flax", tree_guide(variables).leaves, layers)


def is_bound(module: linen.Module) -> bool:
    """Whether a module has a path: one without variables may be called without a parent module."""
    return getattr(module, "scope", None) is not None


def tree_guide(variables: Mapping[str, Any]) -> Guide:
    """Build the guide of a tree of Linen variables: ``{"params": {…}, "batch_stats": {…}}``, or the parameters alone.

    Raises:
        UsageError: two collections hold the same path.
    """
    collections = variables if "params" in variables else {"params": variables}
    leaves: dict[str, Leaf] = {}
    for collection, tree in collections.items():
        if collection == TORCH_ONLY:
            continue  # tensors kept aside for the way back
        for path, leaf in flat(tree).items():
            if path in leaves:
                raise UsageError(f"{path} is both in {leaves[path].collection!r} and in {collection!r}")
            leaves[path] = Leaf(path, tuple(leaf.shape), str(leaf.dtype), collection)
    return Guide("flax", leaves)


def flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Flatten a nested dict to dotted paths."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(value, Mapping):
            found.update(flat(value, path))
        else:
            found[path] = getattr(value, "value", value) if not hasattr(value, "shape") else value
    return found


def _layer(path: str, module: linen.Module) -> Layer:
    pairs = tuple(pairs_of_flax(module))
    is_library = not pairs and type(module).__module__.startswith("flax.")
    return Layer(path, name_of(type(module)), pairs, partial(_params, module), is_library)


def _params(module: linen.Module, pair: LayerPair) -> tuple[ParamPair, ...]:
    return pair.params_of_flax(module)
