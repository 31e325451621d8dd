"""Reduce the layers and experts of a ``transformers`` model to as few as show every kind of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from port.translation.hub.hub_model import LAYERS

EXPERTS = re.compile(r"num_(local_)?experts|n_routed_experts")
CHOSEN = re.compile(r"num_experts_per_tok|moe_topk|top_k_experts")
OF_LAYERS = re.compile(r"layer_types|mlp_layer_types|attention_types|attention_layers|layers_block_type")
OF_DEPTH = re.compile(r"drop_path_rate|stochastic_depth_rate")
"""The last of the rates that grow from layer to layer: each layer has a rate of its own."""
Path = tuple[str, ...]
"""A field's path: the names of the configurations around it, and its own."""


def fewer_layers(fields: Mapping[Path, Any], shared: Mapping[Path, int]) -> dict[Path, Any]:
    """Return fewer layers and experts; for layers that share weights, as many rounds as are needed.

    All layers stay if each has a number of its own that depends on how many there are.

    Args:
        fields: the fields of a configuration and of the nested ones.
        shared: for each field that counts layers, how many rounds over the same layers show that they are a loop.
    """
    found: dict[Path, Any] = {}
    for path, value in fields.items():
        name, owner = path[-1], path[:-1]
        is_own = any(OF_DEPTH.fullmatch(one[-1]) and one[:-1] == owner and rate for one, rate in fields.items())
        if is_own and (name == "depths" or OF_LAYERS.fullmatch(name) or is_number_of_layers(path, value)):
            continue
        if name == "depths" and isinstance(value, list | tuple):
            found[path] = type(value)(min(one, 2) for one in value)
        elif is_number_of_layers(path, value) and (*owner, "depths") not in fields:
            found[path] = min(value, max(shared.get(path, 0), _layers_needed(fields, owner)))
        elif OF_LAYERS.fullmatch(name) and isinstance(value, list):
            found[path] = _first_kinds(value, _layers_needed(fields, owner))
        elif name == "first_k_dense_replace" and isinstance(value, int):
            found[path] = min(value, 1)
        elif CHOSEN.fullmatch(name) and isinstance(value, int):
            found[path] = min(value, 2)
        elif EXPERTS.fullmatch(name) and isinstance(value, int):
            found[path] = min(value, 8)
        elif name == "n_group" and isinstance(value, int):
            found[path] = min(value, 2)
        elif name == "topk_group" and isinstance(value, int):
            found[path] = min(value, 1)
    return found


def is_number_of_layers(path: Path, value: Any) -> bool:
    """Whether a field counts layers."""
    return bool(LAYERS.fullmatch(path[-1])) and isinstance(value, int)


def _layers_needed(fields: Mapping[Path, Any], owner: Path) -> int:
    """Return how many layers show every kind of them; at least two."""
    said = [value for path, value in fields.items() if path[:-1] == owner and OF_LAYERS.fullmatch(path[-1])]
    lists = [_kinds(value) for value in said if isinstance(value, list | tuple)]
    return max([2, *(kinds.index(kind) + 1 for kinds in lists for kind in kinds)])


def _kinds(value: Sequence[Any]) -> list[Any]:
    """Return the kind of each layer; ``[[kinds, times], …]`` is expanded."""
    return [kind for kinds, times in value for kind in kinds * times] if _is_counted(value) else list(value)


def _first_kinds(value: list[Any], count: int) -> list[Any]:
    """Return the kinds of the first layers, in the form of the configuration."""
    return [[_kinds(value)[:count], 1]] if _is_counted(value) else value[:count]


def _is_counted(value: Sequence[Any]) -> bool:
    """Whether kinds of layers have the form ``[[["global", "local"], 12]]``: in turn, 12 times."""
    return all(
        isinstance(one, list | tuple) and len(one) == 2 and isinstance(one[0], list) and isinstance(one[1], int)
        for one in value
    )
