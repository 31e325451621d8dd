"""Child modules with their names, like torch's ``named_children``."""

from __future__ import annotations

from typing import Any

from flax import nnx


def named_children(module: nnx.Module) -> list[tuple[str, Any]]:
    """Return a module's children as (name, child), in the order in which they were assigned.

    Activations and poolings, which are plain functions in Flax, are included only for an `nnx.Sequential`. After
    ``nnx.merge`` children are sorted by name, so use this in constructors.
    """
    if isinstance(module, nnx.Sequential):
        return [(str(number), layer) for number, layer in enumerate(module.layers)]
    return [(name, value) for name, value in vars(module).items() if isinstance(value, nnx.Module)]
