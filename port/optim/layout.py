"""Wraps an optimizer that works on torch's tensors, for Flax's parameters.

Some updates depend on a parameter's layout: Adafactor averages over the last two axes, Muon scales by rows and
columns, and both depend on what is one tensor: three projections fused into one matrix are stepped differently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from port.errors import WeightsMismatch
from port.mapping import FROZEN, Entry, Mapping
from port.mapping.entry import gather
from port.moves import Addends, Sum
from port.transforms.paths import path_of

Named = dict[str, Any]


def in_torch_layout(optimizer: optax.GradientTransformation, mapping: Mapping) -> optax.GradientTransformationExtraArgs:
    """Apply the optimizer to the parameters in torch's layout, and convert its updates back.

    The moves are transposes and reshapes, so XLA compiles most of them away.

    Args:
        optimizer: works on a dict of torch's names and tensors. Its state has that layout, too.
        mapping: from torch's names to the Flax parameters' paths.
    """
    inner = optax.with_extra_args_support(optimizer)

    def init(params: Any) -> Any:
        return inner.init(torch_named(params, mapping))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        named_params = None if params is None else torch_named(params, mapping)
        if "value_and_grad_fn" in extra:
            extra["value_and_grad_fn"] = _with_torchs_names(extra["value_and_grad_fn"], updates, mapping)
        changed, state = inner.update(torch_named(updates, mapping), state, named_params, **extra)
        return flax_like(changed, updates, mapping), state

    return optax.GradientTransformationExtraArgs(init, update)


def _with_torchs_names(function: Callable[[Any], Any], like: Any, mapping: Mapping) -> Callable[[Named], Any]:
    def value_and_grad(params: Named) -> Any:
        value, gradients = function(flax_like(params, like, mapping))
        return value, torch_named(gradients, mapping)

    return value_and_grad


def torch_named(tree: Any, mapping: Mapping) -> Named:
    """Convert a tree of Flax parameters, or of anything with their layout, to torch's names and layouts."""
    leaves = named_leaves(tree, mapping)
    named: Named = {}
    for entry in parameter_entries(mapping):
        if any(target in leaves for target in entry.targets):
            back = entry.inverse()
            named |= zip(back.targets, back(gather(back, leaves)), strict=True)
    return named


def flax_like(named: Named, tree: Any, mapping: Mapping) -> Any:
    """Convert from torch's names and layouts to a tree like ``params``."""
    leaves: Named = {}
    for entry in parameter_entries(mapping):
        if all(source in named for source in entry.sources):
            leaves |= zip(entry.targets, entry(gather(entry, named)), strict=True)
    prefix = prefix_of(tree, mapping)

    def leaf(keys: Any, old: Any) -> jax.Array:
        return jnp.asarray(leaves[path_of(keys).removeprefix(prefix)], old.dtype)

    return jax.tree_util.tree_map_with_path(leaf, tree)


def named_leaves(tree: Any, mapping: Mapping) -> Named:
    """Return the leaves of a tree of parameters, under the mapping's paths.

    Raises:
        WeightsMismatch: the mapping lacks a parameter.
    """
    prefix = prefix_of(tree, mapping)
    leaves = {path_of(keys).removeprefix(prefix): leaf for keys, leaf in jax.tree_util.tree_leaves_with_path(tree)}
    known = {target for entry in parameter_entries(mapping) for target in entry.targets}
    if strange := sorted(set(leaves) - known):
        raise WeightsMismatch(f"the mapping has no parameter {', '.join(strange)}; it has {', '.join(sorted(known))}")
    return leaves


def prefix_of(tree: Any, mapping: Mapping) -> str:
    """The path before the mapping's paths in a tree: variables hold their parameters under ``params``."""
    known = {target for entry in mapping.entries for target in entry.targets}
    paths = [path_of(keys) for keys, _ in jax.tree_util.tree_leaves_with_path(tree)]
    inside = bool(paths) and all(path.startswith("params.") for path in paths) and not known & set(paths)
    return "params." if inside else ""


def parameter_entries(mapping: Mapping) -> list[Entry]:
    """The mapping's entries for parameters, including frozen ones, each tensor under one name.

    Raises:
        WeightsMismatch: moves that change the trained values, and not only their layout.
    """
    entries = []
    for entry in mapping.entries:
        if entry.collection not in ("params", FROZEN):
            continue
        if entry.collection != FROZEN and any(isinstance(move, Sum | Addends) for move in entry.moves):
            raise WeightsMismatch(f"{entry}: their sum does not train as they do; keep both (port.nn has the layers)")
        entries.append(_untied(entry))
    return entries


def _untied(entry: Entry) -> Entry:
    if not entry.is_tied:
        return entry
    shapes = None if entry.shapes is None else entry.shapes[:1]
    return Entry(entry.sources[:1], entry.targets, entry.moves[1:], entry.collection, shapes, entry.optional)
