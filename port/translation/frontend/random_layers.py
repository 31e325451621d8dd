"""Layers that draw random numbers in training."""

from __future__ import annotations

from typing import Any


def draws_once(layer: Any) -> bool:
    """Whether a torch layer, in training, draws exactly one random array at each call, as its twin does.

    False for layers that draw in submodules or kernels, such as an LSTM or an attention with dropout.
    """
    from torch import nn

    kind = f"{type(layer).__module__}.{type(layer).__qualname__}"
    if isinstance(layer, nn.modules.dropout._DropoutNd) or kind == "torchvision.ops.stochastic_depth.StochasticDepth":
        return 0 < layer.p < 1
    return isinstance(layer, nn.RReLU)
