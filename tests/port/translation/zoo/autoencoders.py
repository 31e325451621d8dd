"""Encoders with decoders over images and sound, and networks that mix by linear layers and gates."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given, integers


class ConvAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(4, 6, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(6 * 2 * 3, 5),
        )
        self.decoder = nn.Sequential(
            nn.Linear(5, 6 * 2 * 3),
            nn.Unflatten(dim=1, unflattened_size=(6, 2, 3)),
            nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(True),
            nn.ConvTranspose2d(4, 1, 3, stride=2, padding=1, output_padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


class SoundDecoder(nn.Module):
    """HiFi-GAN's generator: transposed convolutions, and between them several branches that are averaged."""

    def __init__(self, channels: int = 6, rates: tuple[int, ...] = (3, 2), kernels: tuple[int, ...] = (3, 5)) -> None:
        super().__init__()
        self.num_kernels = len(kernels)
        self.conv_pre = nn.Conv1d(4, channels, 7, 1, padding=3)
        self.ups = nn.ModuleList()
        self.resblocks = nn.ModuleList()
        for u in rates:
            self.ups.append(nn.ConvTranspose1d(channels, channels - 1, u * 2 + 1, u, padding=(u + 1) // 2))
            channels -= 1
            for d, k in enumerate(kernels, start=1):
                self.resblocks.append(nn.Conv1d(channels, channels, k, dilation=d, padding=(k * d - d) // 2))
        self.conv_post = nn.Conv1d(channels, 1, 7, padding=3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_pre(x)
        for i, up in enumerate(self.ups):
            x = F.leaky_relu(x, 0.1)
            x = up(x)
            xs = None
            for j in range(self.num_kernels):
                branch = self.resblocks[i * self.num_kernels + j]
                if xs is None:
                    xs = branch(x)
                else:
                    xs += branch(x)
            x = x + xs / self.num_kernels
        x = F.leaky_relu(x)
        return torch.tanh(self.conv_post(x)).squeeze(1)


class MixerBlock(nn.Module):
    def __init__(self, tokens: int, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token_mix = nn.Sequential(nn.Linear(tokens, 5), nn.GELU(), nn.Linear(5, tokens))
        self.channel_mix = nn.Sequential(nn.Linear(dim, 9), nn.GELU(), nn.Linear(9, dim))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x).transpose(1, 2)  # (B, C, T)
        x = x + self.token_mix(y).transpose(1, 2)
        return x + self.channel_mix(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, dim: int = 7, depth: int = 2, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, dim, (3, 2), stride=(3, 2))
        self.blocks = nn.Sequential(*(MixerBlock(6, dim) for _ in range(depth)))
        self.head = nn.Linear(dim, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        _b, _c, h, w = x.shape
        assert h * w == 6
        x = torch.permute(x, (0, 2, 3, 1)).flatten(1, 2)
        return self.head(self.blocks(x).mean(dim=1))


class Gated(nn.Module):
    """Gated linear units: by F.glu, by nn.GLU over channels, GEGLU, a highway."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(3, 2 * dim, 3, padding=1), nn.GLU(dim=1))
        self.geglu = nn.Linear(dim, 2 * dim, bias=False)
        self.gate, self.transform = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x).mT
        a, gate = self.geglu(x).chunk(2, dim=-1)
        x = a * F.gelu(gate)
        t = torch.sigmoid(self.gate(x) - 2.0)
        x = t * F.relu(self.transform(x)) + (1 - t) * x
        return F.glu(x, dim=-1)


class BagOfWords(nn.Module):
    """EmbeddingBag in each of its modes; weights for each word."""

    def __init__(self, vocab: int = 12, dim: int = 4) -> None:
        super().__init__()
        self.mean = nn.EmbeddingBag(vocab, dim, mode="mean", sparse=True)
        self.sum = nn.EmbeddingBag(vocab, dim, mode="sum")
        self.max = nn.EmbeddingBag(vocab, dim, mode="max")
        self.act = nn.PReLU(dim, init=0.1)
        self.fc = nn.Linear(3 * dim, 2)

    def forward(self, words: Tensor, weights: Tensor) -> Tensor:
        bags = [self.mean(words), self.sum(words, per_sample_weights=weights), self.max(words)]
        return self.fc(torch.cat([self.act(bag) for bag in bags], dim=1))


EXAMPLES = (
    Example("conv_autoencoder", ConvAutoencoder, lambda: given(floats(3, 1, 8, 12)), "Flatten, Unflatten, transposed"),
    Example("sound_decoder", SoundDecoder, lambda: given(floats(2, 4, 5)), "ConvTranspose1d, branches by index"),
    Example("mlp_mixer", Mixer, lambda: given(floats(2, 2, 9, 4)), "tokens and channels mixed in turn"),
    Example("gated", Gated, lambda: given(floats(2, 3, 5)), "F.glu, nn.GLU, GEGLU, highway"),
    Example(
        "embedding_bag",
        BagOfWords,
        lambda: given(integers(12, 3, 5), weights=floats(3, 5)),
        "EmbeddingBag in each mode, PReLU",
    ),
)
