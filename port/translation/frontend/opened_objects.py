"""Objects that modules hand to one another, as dicts of the tensors in them: trees of arrays are what JAX passes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.translation.frontend.branch_selection import NoValue

_CLOSED = (
    *(torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, torch.nn.Module, torch.Generator),
    *(ModuleType, FunctionType, MethodType, BuiltinFunctionType, type, str, int, float, complex, bool),
)


def opened(tree: Any, *, objects: bool = True) -> Any:
    """A tree with dicts in the place of dataclasses, of mappings of the user's own, and of objects that hold tensors.

    Args:
        tree: what a module is given, or gives.
        objects: whether other objects than dataclasses and mappings are opened, as distributions are.
    """
    known: dict[int, Any] = {}
    return pytree.tree_map(lambda leaf: _opened(leaf, objects, known), tree)


def _opened(leaf: Any, objects: bool, known: dict[int, Any]) -> Any:
    """The same of one leaf; each object is looked at once, and one that holds itself stays where it does."""
    if leaf is None or isinstance(leaf, _CLOSED):
        return leaf
    if isinstance(leaf, NoValue):
        leaf.refuse()
    if id(leaf) not in known:
        known[id(leaf)] = leaf
        known[id(leaf)] = _contents(leaf, objects, known)
    return known[id(leaf)]


def _contents(leaf: Any, objects: bool, known: dict[int, Any]) -> Any:
    if isinstance(leaf, Mapping):
        return {key: _opened(item, objects, known) for key, item in leaf.items()}
    if isinstance(leaf, tuple | list):
        return (tuple if isinstance(leaf, tuple) else list)(_opened(item, objects, known) for item in leaf)
    if dataclasses.is_dataclass(leaf):
        return {each.name: _opened(getattr(leaf, each.name), objects, known) for each in dataclasses.fields(leaf)}
    if not objects or not hasattr(leaf, "__dict__"):
        return leaf
    # What an object's methods use: its public tensors, and those that no public name reaches.
    found: dict[str, Any] = {}
    tensors: set[int] = set()
    for name in sorted(vars(leaf), key=lambda name: name.startswith("_")):
        item = _opened(vars(leaf)[name], objects, known)
        inside = {id(tensor) for tensor in pytree.tree_leaves(item) if isinstance(tensor, torch.Tensor)}
        if inside - tensors:
            found[name] = item
            tensors |= inside
    return found or leaf
