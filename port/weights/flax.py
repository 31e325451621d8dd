"""An nnx module's weights, under the names and in the layouts of its torch twin. Imports no torch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from port.errors import WeightsMismatch
from port.mapping import TORCH_ONLY, Entry, Guide, Mapping, between
from port.mapping.entry import gather
from port.mapping.names import joined
from port.mapping.nnx_guide import dotted
from port.weights.nnx_variables import variables_of, weights_of
from port.weights.sources import Source


def arrays_of(module: nnx.Module, mapping: Mapping | None = None) -> dict[str, np.ndarray]:
    """Return the module's parameters and running statistics as a torch state dict of numpy arrays.

    Args:
        module: an nnx module.
        mapping: from torch's keys to the module's paths; by default the module's own. Tensors that it does not mention
            are left out.
    """
    mapping = mapping or between(None, module)
    carried = Mapping(tuple(entry for entry in mapping.entries if entry.collection != TORCH_ONLY))
    spoken = {target for entry in carried.entries for target in entry.targets}
    return carried.inverse()({path: array for path, array in variables_of(module).items() if path in spoken})


def fill(module: nnx.Module, source: Source, mapping: Mapping | None = None) -> None:
    """Load a torch state dict's tensors into the module, in place, keeping the module's dtypes.

    Args:
        module: an nnx module.
        source: torch's keys and layouts; read one tensor at a time.
        mapping: from torch's keys to the module's paths; by default found from the module and the source's names.

    Raises:
        WeightsMismatch: missing, unexpected or mis-shaped keys: all of them in one message; nothing is filled.
            Optional keys count as missing too, if the module has no values of its own (`nnx.eval_shape`).
    """
    mapping = mapping or between(source.guide("torch"), module)
    mapping.check(source.shapes)
    refuse_empty(module, mapping, source)
    own = dict(weights_of(module))
    places = {dotted(path): path for path in own}
    filled = []
    for entry in mapping.present(source):
        if entry.collection == TORCH_ONLY:
            continue
        for target, array in zip(entry.targets, entry(gather(entry, source)), strict=True):
            path = places[target]
            # Copies: `jnp.asarray` would let the module share the caller's memory.
            filled.append((path, jnp.array(array, dtype=own[path].dtype)))
    nnx.update(module, nnx.from_flat_state(filled))


def own_mapping(guide: Guide) -> Mapping:
    """Map a module's paths to themselves: for weights that are Flax's already."""
    optional = {
        joined(layer.path, name)
        for layer in guide.layers
        for pair in layer.pairs[:1]
        for param in layer.params(pair)
        if param.optional
        for name in param.flax_names
    }
    return Mapping(
        tuple(
            Entry((name,), (name,), collection=leaf.collection, shapes=(leaf.shape,), optional=name in optional)
            for name, leaf in guide.leaves.items()
        )
    )


def only_in_torch(guide: Guide) -> set[str]:
    """Return the paths of buffers that a module's torch twin has and the module does not, as its pairs state.

    A file that was converted for another twin may hold them: `port.nn.BatchNorm` counts its batches, `nnx.BatchNorm`
    does not.
    """
    names = {joined(layer.path, name) for layer in guide.layers for pair in layer.pairs for name in pair.torch_only}
    return names - set(guide.leaves)


def refuse_empty(module: nnx.Module, mapping: Mapping, source: Source) -> None:
    """Check that every variable of the module has a value, or gets one; raises WeightsMismatch otherwise."""
    filling = {target for entry in mapping.present(source) for target in entry.targets}
    own = {dotted(path): variable for path, variable in weights_of(module)}
    names = sorted(name for name, variable in own.items() if name not in filling and _is_abstract(variable))
    if names:
        raise WeightsMismatch(
            "the weights lack these, and the module has no values of its own for them (nnx.eval_shape made it): build "
            "it with values, then load\n  " + "\n  ".join(f"missing: {name}" for name in names)
        )


def _is_abstract(weight: Any) -> bool:
    return any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(weight))
