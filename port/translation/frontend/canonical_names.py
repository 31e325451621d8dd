"""One name for each parameter and buffer, where the original has several for one tensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.translation.ir.graph import Graph


def with_canonical_names(root: Any, layers: dict[str, Any], graph: Graph) -> Graph:
    """The graph, each tensor of the module's under one name: that of a layer kept whole, if it has one.

    Args:
        root: the torch module.
        layers: paths of the layers kept whole → the torch layer.
        graph: of one mode.
    """
    names = _names_of_one(root, layers)
    return replace(graph, held={value: names.get(path, path) for value, path in graph.held.items()})


def _names_of_one(root: Any, layers: dict[str, Any]) -> dict[str, str]:
    """Every name → the one that its tensor goes by."""
    tensors = [*root.named_parameters(remove_duplicate=False), *root.named_buffers(remove_duplicate=False)]
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in tensors:
        by_tensor.setdefault(id(tensor), []).append(name)
    found = {}
    for names in by_tensor.values():
        kept = [name for name in names if any(name.startswith(f"{path}.") for path in layers)]
        found.update(dict.fromkeys(names, (kept or names)[0]))
    return found
