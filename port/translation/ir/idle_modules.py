"""Find identity modules that are placeholders for a real module in other instances: ``shortcut = nn.Identity()``."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from port.pairs import pairs_of_torch
from port.pairs.registry import resolve


def idle_modules(root: Any) -> frozenset[str]:
    """Return the paths of identities where another instance of the same class has a module.

    An identity is ``nn.Identity`` or an empty ``nn.Sequential``. It is emitted as a call, ``self.shortcut(x)``, like
    the other instance's module. It is left out if that module becomes a function in JAX, which is not an attribute, or
    if the identity itself has several paths.

    Args:
        root: a torch module.
    """
    paths = Counter(id(module) for _, module in root.named_modules(remove_duplicate=False))
    held: dict[tuple[type, str], list[tuple[str, Any]]] = defaultdict(list)
    for path, module in root.named_modules():
        if type(module).__module__.startswith("torch."):
            continue  # the children of a list or a Sequential have indices, not names
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
    """Whether a module is a module in JAX too: a user's class, or a layer whose twin is a class."""
    pairs = pairs_of_torch(module)
    return not pairs or isinstance(resolve(pairs[0].flax), type)
