"""Modules that give what they take, where others of their kind do something: ``shortcut = nn.Identity()``."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from port.pairs import pairs_of_torch
from port.pairs.registry import resolve


def idle_modules(root: Any) -> frozenset[str]:
    """The paths of an Identity, or an empty Sequential, in whose place another instance of the class has a module.

    They are called as the other is: ``self.shortcut(x)``. Where that one is a function in JAX, no attribute is called;
    and one that stands at several paths is left out, as it is called under its first name.

    Args:
        root: a torch module.
    """
    paths = Counter(id(module) for _, module in root.named_modules(remove_duplicate=False))
    held: dict[tuple[type, str], list[tuple[str, Any]]] = defaultdict(list)
    for path, module in root.named_modules():
        if type(module).__module__.startswith("torch."):
            continue  # a list or a Sequential: what its modules are called by is no name
        for name, child in module._modules.items():
            if child is not None:
                held[type(module), name].append((f"{path}.{name}" if path else name, child))
    return frozenset(
        path
        for children in held.values()
        if any(not _is_idle(child) and _is_module(child) for _, child in children)
        for path, child in children
        if _is_idle(child) and paths[id(child)] == 1
    )


def _is_idle(module: Any) -> bool:
    import torch

    return type(module) is torch.nn.Identity or (type(module) is torch.nn.Sequential and not len(module))


def _is_module(module: Any) -> bool:
    """Whether a module is one in JAX, too: of the user's, or a layer whose twin is a class."""
    pairs = pairs_of_torch(module)
    return not pairs or isinstance(resolve(pairs[0].flax), type)
