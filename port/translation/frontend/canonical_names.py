"""Give each parameter and buffer one canonical name, where the original has several names for one tensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.translation.ir.graph import Graph


def with_canonical_names(root: Any, layers: dict[str, Any], graph: Graph) -> Graph:
    """Return the graph with one name for each of the module's tensors; a kept layer's name wins.

    Args:
        root: the torch module.
        layers: paths of the layers kept whole → the torch layer.
        graph: the graph of one mode.
    """
    names = _names_of_one(root, layers)
    return replace(graph, held={value: names.get(path, path) for value, path in graph.held.items()})


def _names_of_one(root: Any, layers: dict[str, Any]) -> dict[str, str]:
    """Map every name to its tensor's canonical name."""
    tensors = [*root.named_parameters(remove_duplicate=False), *root.named_buffers(remove_duplicate=False)]
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in tensors:
        by_tensor.setdefault(id(tensor), []).append(name)
    found = {}
    for names in by_tensor.values():
        kept = [name for name in names if any(name.startswith(f"{path}.") for path in layers)]
        found.update(dict.fromkeys(names, (kept or names)[0]))
    return found
