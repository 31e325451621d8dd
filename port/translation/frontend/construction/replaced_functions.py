"""Layers that are functions in JAX, and that others took the place of when a model had been constructed.

A builder may put a ReLU in the place of every ReLU6 of the model that it has constructed. Which class makes room for
which layer is told from both models; a class of which some stayed has not made room.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from port.pairs import pairs_of_torch
from port.pairs.registry import resolve

Replaced = Mapping[type, torch.nn.Module]
"""A class of layers → the layer that is in the place of each of them."""


def replaced_functions(made: torch.nn.Module, module: torch.nn.Module) -> Replaced:
    """The layers that are in the place of others; none where that does not tell both models apart.

    Args:
        made: the model as its class makes it.
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
    """Put the layers in the place of those that make room for them."""
    for owner in list(made.modules()):
        for name, child in owner._modules.items():
            if type(child) in replaced:
                owner._modules[name] = copy.deepcopy(replaced[type(child)])


def _is_function(module: Any) -> bool:
    """Whether a layer's twin is a function, which holds nothing."""
    pairs = pairs_of_torch(module)
    return bool(pairs) and not isinstance(resolve(pairs[0].flax), type) and not module.state_dict()
