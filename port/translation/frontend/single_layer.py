"""Translate a single layer: it is wrapped in a model that holds nothing else."""

from __future__ import annotations

from typing import Any

import torch

from port.translation.frontend.leaf_modules import is_kept

PREFIX = "layer."
"""What the model's names have before the layer's own."""


class SingleLayerModel(torch.nn.Module):
    """A model of one layer."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.train(layer.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer(*args, **kwargs)


def prefix_of(module: torch.nn.Module) -> str:
    """What stands before a module's own names in what is translated for it."""
    return PREFIX if is_kept(module) else ""


def as_root(module: torch.nn.Module) -> torch.nn.Module:
    """The module that is translated for one: itself, but a layer that a pair speaks of as a model of its own."""
    return SingleLayerModel(module) if is_kept(module) else module
