"""Detect layers without state, such as activations, that were replaced after a model was constructed.

A builder may replace every ReLU6 of the model that it has constructed by a ReLU. Comparing the model with a newly
constructed one shows which class is replaced by which layer. A class must be replaced everywhere to count.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from port.pairs import pairs_of_torch
from port.pairs.registry import resolve

Replaced = Mapping[type, torch.nn.Module]
"""A layer class → the layer that replaces every instance of it."""


def replaced_functions(made: torch.nn.Module, module: torch.nn.Module) -> Replaced:
    """Return the replacements that turn one model into the other; empty where replacements alone do not suffice.

    Args:
        made: the model as its class constructs it.
        module: the model as it is.
    """
    there = dict(module.named_modules(remove_duplicate=False))
    found: dict[type, torch.nn.Module] = {}
    pairs = [(each, there.get(path)) for path, each in made.named_modules(remove_duplicate=False)]
    for before, now in pairs:
        if now is None:
            return {}
        if type(now) is not type(before):
            if not (_is_function(before) and _is_function(now)):
                return {}
            found.setdefault(type(before), now)
    stayed = any(type(before) in found and repr(now) != repr(found[type(before)]) for before, now in pairs)
    return {} if stayed else found


def put_in_place(made: torch.nn.Module, replaced: Replaced) -> None:
    """Apply the replacements to a model, in place."""
    for owner in list(made.modules()):
        for name, child in owner._modules.items():
            if type(child) in replaced:
                owner._modules[name] = copy.deepcopy(replaced[type(child)])


def _is_function(module: Any) -> bool:
    """Whether a layer's twin is a function, without state."""
    pairs = pairs_of_torch(module)
    return bool(pairs) and not isinstance(resolve(pairs[0].flax), type) and not module.state_dict()
