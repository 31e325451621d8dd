"""Wrap a single layer in a model, so that it can be translated."""

from __future__ import annotations

from typing import Any

import torch

from port.translation.frontend.leaf_modules import is_kept

PREFIX = "layer."
"""Prefix of the layer's names within the wrapping model."""


class SingleLayerModel(torch.nn.Module):
    """A model of one layer."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.train(layer.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer(*args, **kwargs)


def prefix_of(module: torch.nn.Module) -> str:
    """Return the prefix of a module's names in its translation: `PREFIX` for a wrapped layer, else empty."""
    return PREFIX if is_kept(module) else ""


def as_root(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module to translate: the module itself, or a wrapping model if it is a layer with a pair."""
    return SingleLayerModel(module) if is_kept(module) else module
