"""Convert objects that modules pass to one another to dicts of their tensors, which are pytrees to JAX."""

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
    """Replace dataclasses, user-defined mappings and objects that hold tensors by dicts, in a tree.

    Args:
        tree: a module's arguments or results.
        objects: whether to open objects other than dataclasses and mappings, such as distributions.
    """
    known: dict[int, Any] = {}
    return pytree.tree_map(lambda leaf: _opened(leaf, objects, known), tree)


def _opened(leaf: Any, objects: bool, known: dict[int, Any]) -> Any:
    """Open one leaf; each object is opened once, and an object inside itself stays closed."""
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
    # Public tensors first, then private ones that no public name reaches: its methods may use both.
    found: dict[str, Any] = {}
    tensors: set[int] = set()
    for name in sorted(vars(leaf), key=lambda name: name.startswith("_")):
        item = _opened(vars(leaf)[name], objects, known)
        inside = {id(tensor) for tensor in pytree.tree_leaves(item) if isinstance(tensor, torch.Tensor)}
        if inside - tensors:
            found[name] = item
            tensors |= inside
    return found or leaf
