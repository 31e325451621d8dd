"""Objects that modules hand to one another, as dicts of the tensors in them: trees of arrays are what JAX passes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

_CLOSED = (torch.Tensor, torch.SymInt, torch.nn.Module, torch.Generator, type, str, int, float, complex, bool)


def opened(tree: Any, *, objects: bool = True) -> Any:
    """A tree with dicts in the place of dataclasses, of mappings of the user's own, and of objects that hold tensors.

    Args:
        tree: what a module is given, or gives.
        objects: whether other objects than dataclasses and mappings are opened, as distributions are.
    """
    return pytree.tree_map(lambda leaf: _opened(leaf, objects, ()), tree)


def _opened(leaf: Any, objects: bool, above: tuple[int, ...]) -> Any:
    if leaf is None or isinstance(leaf, _CLOSED) or id(leaf) in above:
        return leaf
    inside = (*above, id(leaf))
    if isinstance(leaf, Mapping):
        return {key: _opened(item, objects, inside) for key, item in leaf.items()}
    if isinstance(leaf, tuple | list):
        return (tuple if isinstance(leaf, tuple) else list)(_opened(item, objects, inside) for item in leaf)
    if dataclasses.is_dataclass(leaf):
        return {each.name: _opened(getattr(leaf, each.name), objects, inside) for each in dataclasses.fields(leaf)}
    if not objects or not hasattr(leaf, "__dict__"):
        return leaf
    # What an object's methods use: its public tensors, and those that no public name reaches.
    found: dict[str, Any] = {}
    for name in sorted(vars(leaf), key=lambda name: name.startswith("_")):
        item = _opened(vars(leaf)[name], objects, inside)
        known = {id(tensor) for tensor in _tensors(found)}
        if any(id(tensor) not in known for tensor in _tensors(item)):
            found[name] = item
    return found or leaf


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
