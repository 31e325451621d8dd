"""Three models in PyTorch. Alone, to see their inputs and outputs:

    python -m side_by_side.pytorch.model

All take uint8 images, channels first, (N, C, H, W), and scale them to [0, 1] themselves.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from port.data import dataset_info
from side_by_side.config import Config
from side_by_side.pytorch.replicas import SynchronisedBatchNorm

HIDDEN = 512


# %% An MLP by hand: a list of (w, b), one sample at a time, then mapped over the batch


def init_mlp_by_hand(sizes: list[int], generator: torch.Generator) -> list[tuple[Tensor, Tensor]]:
    """Weights (out, in) and biases (out,), drawn from N(0, 1) · 1e-2."""
    scale = 1e-2
    return [
        (
            scale * torch.randn(size_out, size_in, generator=generator),
            scale * torch.randn(size_out, generator=generator),
        )
        for size_in, size_out in pairwise(sizes)
    ]


def mlp_by_hand(params: list[tuple[Tensor, Tensor]], pixels: Tensor) -> Tensor:
    """One sample: pixels (features,) → logits (classes,)."""
    activations = pixels
    for w, b in params[:-1]:
        activations = torch.relu(w @ activations + b)
    w, b = params[-1]
    return w @ activations + b


class MLPByHand(nn.Module):
    """Holds the list, so that it trains and saves like any other model."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        params = init_mlp_by_hand(sizes, torch.default_generator)
        self.w = nn.ParameterList(w for w, _ in params)
        self.b = nn.ParameterList(b for _, b in params)

    def forward(self, images: Tensor) -> Tensor:
        params = list(zip(self.w, self.b, strict=True))
        pixels = scaled(images, self.w[0].dtype)  # (N, C, H, W)
        pixels = pixels.flatten(1)  # (N, C·H·W)
        return torch.vmap(mlp_by_hand, in_dims=(None, 0))(params, pixels)


# %% The same MLP as a module


class MLP(nn.Module):
    """features → 512 → 512 → classes, with dropout after each hidden layer."""

    def __init__(self, sizes: list[int], dropout: float) -> None:
        super().__init__()
        self.fc1 = nn.Linear(sizes[0], sizes[1])
        self.dropout1 = nn.Dropout(dropout)
        self.fc2 = nn.Linear(sizes[1], sizes[2])
        self.dropout2 = nn.Dropout(dropout)
        self.fc3 = nn.Linear(sizes[2], sizes[3])

    def forward(self, images: Tensor) -> Tensor:
        x = scaled(images, self.fc1.weight.dtype)  # (N, C, H, W)
        x = x.flatten(1)  # (N, C·H·W)
        x = self.dropout1(torch.relu(self.fc1(x)))
        x = self.dropout2(torch.relu(self.fc2(x)))
        return self.fc3(x)


# %% A convolutional network


def batch_norm(features: int, synchronised: bool) -> nn.BatchNorm2d:
    """Keras' BatchNormalization(scale=False): eps 1e-3, momentum 0.99 (W7: torch's is one minus that)."""
    kind = SynchronisedBatchNorm if synchronised else nn.BatchNorm2d
    norm = kind(features, eps=1e-3, momentum=0.01)
    norm.register_parameter("weight", None)  # torch's affine means scale and shift, or neither
    return norm


class ConvNet(nn.Module):
    """The net of Keras' guide to multi-device training with JAX.

    eps and momentum of BatchNorm are Keras'; initial weights are PyTorch's own (Keras draws Glorot uniform
    kernels and zero biases). Keras' "same" padding at stride 2 is 2 on each side, as the images' sides are even.

    ``synchronised`` takes batch statistics over the batches of all replicas.
    """

    def __init__(self, channels: int, classes: int, dropout: float, *, synchronised: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 12, 3, padding=1, bias=False)
        self.norm1 = batch_norm(12, synchronised)
        self.conv2 = nn.Conv2d(12, 24, 6, stride=2, bias=False)
        self.norm2 = batch_norm(24, synchronised)
        self.conv3 = nn.Conv2d(24, 32, 6, stride=2, padding=2)
        self.norm3 = batch_norm(32, synchronised)
        self.fc1 = nn.Linear(32, 256)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(256, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = scaled(images, self.fc1.weight.dtype)  # (N, C, H, W)
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        x = torch.relu(self.norm3(self.conv3(x)))
        x = x.mean((2, 3))  # (N, C)
        x = self.dropout(torch.relu(self.fc1(x)))
        return self.fc2(x)


# %% Which one, and a loss


def scaled(images: Tensor, dtype: torch.dtype) -> Tensor:
    """uint8 in 0…255 → [0, 1]."""
    return images.to(dtype) / 255


def build(config: Config) -> nn.Module:
    """The config's model with torch's initial weights, float32."""
    info = dataset_info(config.dataset)
    sizes = [math.prod(info.image_shape), HIDDEN, HIDDEN, info.classes]
    with torch.random.fork_rng(devices=[]):  # the caller's generator stays as it is
        torch.manual_seed(config.seed)
        if config.model == "mlp-by-hand":
            return MLPByHand(sizes)
        if config.model == "mlp":
            return MLP(sizes, config.dropout_rate)
        return ConvNet(info.image_shape[-1], info.classes, config.dropout_rate, synchronised=synchronised_over(config))


def synchronised_over(config: Config) -> bool:
    """Whether batch statistics are taken over the batches of several replicas."""
    return config.replicas > 1 and config.statistics == "synchronised"


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """(N, classes), (N,) → the loss of each sample, (N,)."""
    return F.cross_entropy(logits, labels, reduction="none")


# %% Inputs and outputs


def main() -> None:
    """Every model's size and shapes; and the one by hand on numbers that both sides share."""
    draw = np.random.default_rng(0).standard_normal
    images = torch.tensor(draw((4, 1, 8, 8)) * 40 + 128).to(torch.uint8)
    for name in ("mlp-by-hand", "mlp", "convnet"):
        model = build(Config(model=name))
        model.eval()
        count = sum(parameter.numel() for parameter in model.parameters())
        logits = model(images)
        print(f"{name:<12} {count:>7} parameters, {tuple(images.shape)} {images.dtype} → {tuple(logits.shape)}")

    params = [(torch.tensor(draw((n, m))), torch.tensor(draw(n))) for m, n in ((3, 5), (5, 2))]
    print("mlp_by_hand ", *(f"{logit:.12f}" for logit in mlp_by_hand(params, torch.tensor(draw(3))).tolist()))


if __name__ == "__main__":
    main()
