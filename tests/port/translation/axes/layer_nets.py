"""Small models of the layers with parameters of their own kinds: a mesh of two by two devices divides their axes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

VOCAB, WIDTH = 20, 16


class Upsampler(nn.Module):
    """Transposed convolutions: Flax's, or in groups."""

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 12, (2, 3), stride=2, padding=1, output_padding=1, groups=groups)
        self.head = nn.Linear(12, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.up(torch.relu(self.stem(x))))
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """Attention within a sequence, whose three projections are one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.up, self.down = nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x + self.down(torch.relu(self.up(x))))


class CrossAttention(nn.Module):
    """Attention from words to features of another size, with a projection each, and one more key and value."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        sizes = {"kdim": 10, "vdim": 6, "batch_first": True}
        self.attention = nn.MultiheadAttention(WIDTH, 4, bias=bias, add_bias_kv=True, **sizes)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        x = self.table(ids)
        made, weights = self.attention(x, keys, values)
        return self.head(x + made * weights.sum(-1, keepdim=True))


class Recurrent(nn.Module):
    """A recurrence over a text; its width is not the table's."""

    def __init__(self, kind: str, **options: int | bool) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        self.layers = getattr(nn, kind)(WIDTH, 12, batch_first=True, **options)
        width = (options.get("proj_size") or 12) * (2 if options.get("bidirectional") else 1)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layers(self.table(ids))[0])


class Cells(nn.Module):
    """A recurrence step by step, over features."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(6, WIDTH), nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        state, cell = x.new_zeros(len(x), WIDTH), x.new_zeros(len(x), WIDTH)
        other = state
        for step in range(x.shape[1]):
            state, cell = self.lstm(x[:, step], (state, cell))
            other = self.gru(state, other)
        return self.head(other)


class Pairs(nn.Module):
    """A bilinear form of two words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        self.form = nn.Bilinear(WIDTH, WIDTH, 6)
        self.mixed = nn.Bilinear(WIDTH, 10, WIDTH, bias=False)

    def forward(self, ids: Tensor, features: Tensor) -> Tensor:
        one, other = self.table(ids[:, 0]), self.table(ids[:, 1])
        return self.form(one, self.mixed(other, features))


class Norms(nn.Module):
    """The norms that are port.nn's."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.mix = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 1)
        self.batch, self.instance = nn.BatchNorm2d(16), nn.InstanceNorm2d(16, affine=True, track_running_stats=True)
        self.layer, self.square = nn.LayerNorm((6, 16)), nn.RMSNorm((16,))
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.batch(self.stem(x)))
        x = self.instance(self.mix(x)).permute(0, 2, 3, 1)
        return self.head(self.square(self.layer(x)).mean((1, 2)))


class Encoder(nn.Module):
    """A stack of torch's own encoder layers over a text."""

    def __init__(self, norm_first: bool, batch_first: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 24, 0.0, batch_first=batch_first, norm_first=norm_first)
        norm = nn.LayerNorm(WIDTH) if norm_first else None
        self.encoder = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.encoder(self.table(ids)))


class EncoderDecoder(nn.Module):
    """torch's whole Transformer, from one text to another."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        self.transformer = nn.Transformer(WIDTH, 4, 1, 2, 24, 0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.head(self.transformer(self.table(source), self.table(target)))


class Bags(nn.Module):
    """Bags of words."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(VOCAB, WIDTH, mode="sum")
        self.up, self.down = nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.bags(ids)
        return self.head(x + self.down(torch.relu(self.up(x))))
