"""A thin VGG: torchvision's class with a small classifier, and one in Flax whose flatten is channels last.

Between the last convolution and the first linear layer both flatten, torch (C, H, W) and Flax (H, W, C): the kernel's
inputs stand in another order, which the conversion folds into the weights. Here 12 channels of 5 × 7: not square.

Paper: Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torchvision.models.vgg import VGG, make_layers

from port.nn import BatchNorm

FEATURES = (12, 5, 7)
"""Channels, height and width before the flatten."""
CONVOLUTIONS = (6, "M", 10, 12, "M")
HIDDEN, CLASSES = (32, 20), 9
IMAGE = (20, 28)

NAMES = {
    # torchvision counts convolutions, norms, activations and pools; here are the convolutions, and the norms.
    **{
        rf"^features\.{place + offset}\.": f"{kind}.{number}."
        for number, place in enumerate((0, 4, 7))
        for offset, kind in enumerate(("convolutions", "norms"))
    },
    r"^classifier\.0\.": "hidden.0.",
    r"^classifier\.3\.": "hidden.1.",
    r"^classifier\.6\.": "logits.",
}
FOLD = {"classifier.0": FEATURES}


def thin_torchvision_vgg(dropout: float = 0.0) -> VGG:
    """torchvision's VGG with batch norm, thin throughout. (N, 3, 20, 28) → (N, 9)."""
    with torch.device("meta"):  # its own classifier has 120 million weights, none of which is wanted
        model = VGG(torch.nn.Identity(), init_weights=False)
    model.features = make_layers(list(CONVOLUTIONS), batch_norm=True)
    model.avgpool = torch.nn.AdaptiveAvgPool2d(FEATURES[1:])
    layers: list[torch.nn.Module] = []
    inputs = FEATURES[0] * FEATURES[1] * FEATURES[2]
    for outputs in HIDDEN:
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU(), torch.nn.Dropout(dropout)]
        inputs = outputs
    model.classifier = torch.nn.Sequential(*layers, torch.nn.Linear(inputs, CLASSES))
    return model


class FlaxVGG(nnx.Module):
    """(N, 20, 28, 3) → (N, 9). Pools are 2 × 2; the adaptive pool has nothing left to do.

    Args:
        dropout: rate of the two dropouts; each is given its key at the call.
        dtype: of the parameters.
        rngs: draws them.
    """

    def __init__(self, *, dropout: float = 0.0, dtype: Any = jnp.float64, rngs: nnx.Rngs) -> None:
        given: dict[str, Any] = {"param_dtype": dtype, "rngs": rngs}
        channels = [3, *(width for width in CONVOLUTIONS if isinstance(width, int))]
        pairs = list(pairwise(channels))
        self.convolutions = nnx.List([nnx.Conv(before, width, (3, 3), **given) for before, width in pairs])
        self.norms = nnx.List([BatchNorm(width, **given) for _, width in pairs])
        sizes = [channels[-1] * FEATURES[1] * FEATURES[2], *HIDDEN]
        self.hidden = nnx.List([nnx.Linear(a, b, **given) for a, b in zip(sizes, HIDDEN, strict=False)])
        self.dropout = nnx.Dropout(dropout)
        self.logits = nnx.Linear(HIDDEN[-1], CLASSES, **given)

    def __call__(self, x: jax.Array, dropout_key: jax.Array | None = None) -> jax.Array:
        layers = iter(zip(self.convolutions, self.norms, strict=True))
        for width in CONVOLUTIONS:
            if width == "M":
                x = nnx.max_pool(x, (2, 2), strides=(2, 2))
            else:
                convolution, norm = next(layers)
                x = nnx.relu(norm(convolution(x)))
        x = x.reshape(x.shape[0], -1)
        for number, linear in enumerate(self.hidden):
            key = None if dropout_key is None else jax.random.fold_in(dropout_key, number)
            x = self.dropout(nnx.relu(linear(x)), rngs=key)
        return self.logits(x)
