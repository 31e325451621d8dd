"""The modules that a module holds, as torch's ``named_children`` gives them."""

from __future__ import annotations

from typing import Any

from flax import nnx


def named_children(module: nnx.Module) -> list[tuple[str, Any]]:
    """The modules that are attributes of a module, by their names, in the order in which they were assigned.

    What Flax calls as a function, an activation or a pooling, is among those of a Sequential alone. After ``nnx.merge``
    the order is that of the names: it is for constructors.
    """
    if isinstance(module, nnx.Sequential):
        return [(str(number), layer) for number, layer in enumerate(module.layers)]
    return [(name, value) for name, value in vars(module).items() if isinstance(value, nnx.Module)]
