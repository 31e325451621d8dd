"""What is held more than once, called more than once, not at all, or through another method."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


class SharedBlock(nn.Module):
    """ALBERT's way: one block for every layer; and one norm under two names."""

    def __init__(self, dim: int = 7, repeats: int = 3) -> None:
        super().__init__()
        self.repeats = repeats
        self.block = nn.Sequential(nn.Linear(dim, dim + 2), nn.Tanh(), nn.Linear(dim + 2, dim))
        self.norm = nn.LayerNorm(dim)
        self.final_norm = self.norm

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.repeats):
            x = self.norm(x + self.block(x))
        return self.final_norm(x * 2)


class SharedBatchNorm(nn.Module):
    """A layer with running statistics, called twice: they move twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.bn = nn.BatchNorm2d(3)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.bn(self.conv(left)) - self.bn(self.conv(right)).relu()


class Encoder(nn.Module):
    def __init__(self, n_in: int, code: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_in, 6)
        self.to_code = nn.Linear(6, code)
        self.head = nn.Linear(code, 2)

    def encode(self, x: Tensor, activation: str = "relu") -> Tensor:
        hidden = getattr(F, activation)(self.hidden(x))
        return self.to_code(hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encode(x))


class CalledByMethod(nn.Module):
    """Its encoder is called by a method, and its forward is not; one of its layers is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder(5, 4)
        self.mask_token = nn.Parameter(torch.zeros(4))  # of the pretraining, not used here
        self.decoder = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        z = self.encoder.encode(x, activation="gelu")
        return {"code": z, "reconstruction": self.decoder(z)}


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(1, 3, 3), nn.PReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.PReLU(4))
        self.fc = nn.Linear(4 * 2 * 3, 5)

    def forward_once(self, x: Tensor) -> Tensor:
        output = self.cnn(x)
        output = output.view(output.size()[0], -1)
        return self.fc(output)

    def forward(self, input1: Tensor, input2: Tensor) -> tuple[Tensor, Tensor]:
        output1 = self.forward_once(input1)
        output2 = self.forward_once(input2)
        return F.pairwise_distance(output1, output2, keepdim=True), F.cosine_similarity(output1, output2)


class Scaled(nn.Module):
    """Two instances of this class differ in a constant alone."""

    def __init__(self, dim: int, scale: float, wrap: bool = False) -> None:
        super().__init__()
        self.scale = scale
        self.wrap = wrap
        self.proj = nn.Linear(dim, dim, bias=not wrap)

    def forward(self, x: Tensor) -> Tensor:
        y = self.proj(x) * self.scale
        if self.wrap:
            y = torch.sin(y)
        return x + y


class OtherConstants(nn.Module):
    GAIN = 1.7

    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.first = Scaled(dim, 0.3)
        self.second = Scaled(dim, -2.0, wrap=True)
        self.third = Scaled(dim, 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.GAIN * self.third(self.second(self.first(x)))


class TiedAutoencoder(nn.Module):
    """The decoder is the encoder's weight, transposed."""

    def __init__(self, n_in: int = 6, code: int = 4) -> None:
        super().__init__()
        self.encoder = nn.Linear(n_in, code)
        self.decoder_bias = nn.Parameter(torch.zeros(n_in))

    def forward(self, x: Tensor) -> Tensor:
        code = torch.sigmoid(self.encoder(x))
        return F.linear(code, self.encoder.weight.t(), self.decoder_bias)


EXAMPLES = (
    Example(
        "shared_block", SharedBlock, lambda: given(floats(3, 4, 7)), "one block called often, one norm of two names"
    ),
    Example(
        "shared_batch_norm",
        SharedBatchNorm,
        lambda: given(floats(2, 3, 5, 4), right=floats(2, 3, 5, 4, seed=1)),
        "running statistics that move twice in a step",
    ),
    Example("called_by_method", CalledByMethod, lambda: given(floats(3, 5)), "encoder.encode(x), layers never called"),
    Example(
        "siamese",
        Siamese,
        lambda: given(floats(3, 1, 8, 10), floats(3, 1, 8, 10, seed=1)),
        "one network for two images, distances, PReLU",
    ),
    Example("other_constants", OtherConstants, lambda: given(floats(2, 5)), "instances of one class, other constants"),
    Example("tied_autoencoder", TiedAutoencoder, lambda: given(floats(3, 6)), "a weight used again, transposed"),
)
