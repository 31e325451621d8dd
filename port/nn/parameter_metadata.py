"""Sets the metadata of parameters of a layer that is made of other layers, by their paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx

from port.errors import UnknownChoice

ByPath = Mapping[str, Mapping[str, Any]]
"""Path of a parameter → its variable's metadata, as from `port.nn.logical_axes`. Copies of a layer have one path."""


def set_metadata(layer: nnx.Module, metadata: ByPath) -> None:
    """Set the metadata of a layer's parameters: ``{"linear1.kernel": logical_axes("embed", "mlp")}``.

    Args:
        layer: has the parameters.
        metadata: by their paths, without the numbers in a list: ``encoder.layers.norm1.scale`` is that of all layers.

    Raises:
        UnknownChoice: a path that no parameter has.
    """
    if not metadata:
        return
    found: dict[str, list[nnx.Param[Any]]] = {}
    for keys, node in nnx.iter_graph(layer):
        if isinstance(node, nnx.Param):
            found.setdefault(".".join(str(key) for key in keys if not isinstance(key, int)), []).append(node)
    # The paths are those of the parameters: metadata may be any mapping, as one that marks every path.
    for path in metadata:
        if path not in found:
            raise UnknownChoice("parameter", path, found)
    for path, variables in found.items():
        if values := metadata.get(path):
            for variable in variables:
                variable.set_metadata(**values)
