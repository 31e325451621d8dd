"""Modules of which torch does not train all."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Bands(nn.Module):
    """A fixed filterbank, there and back, as speech enhancement has it."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(7, 5, bias=False), nn.Linear(5, 7, bias=False)
        bank = torch.rand(5, 7)
        self.down.weight = nn.Parameter(bank, requires_grad=False)
        self.up.weight = nn.Parameter(bank.T.contiguous(), requires_grad=False)


class Enhance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bands = Bands()
        self.gru = nn.GRU(5, 5, batch_first=True)
        self.unread = nn.Parameter(torch.randn(3), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.bands.up(self.gru(self.bands.down(x))[0]))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.scale = nn.Parameter(torch.full((4, 1, 1), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * torch.relu(self.norm(self.conv(x)))


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3)
        self.blocks = nn.Sequential(Block(), Block(), Block())
        self.offset = nn.Parameter(torch.randn(4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.stem(x) + self.offset)


class Classifier(nn.Module):
    """A backbone and a head; the whole backbone is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = Backbone(), nn.Linear(4, 3)
        self.backbone.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x).mean((2, 3)))


def first_blocks() -> Classifier:
    """The stem and the first two blocks are frozen."""
    made = Classifier().requires_grad_(True)
    for part in (made.backbone.stem, *made.backbone.blocks[:2]):
        part.requires_grad_(False)
    return made


def parts_of_blocks() -> Classifier:
    """Each block is frozen in other parts."""
    made = Classifier().requires_grad_(True)
    made.backbone.blocks[1].conv.weight.requires_grad_(False)
    made.backbone.blocks[2].conv.requires_grad_(False)
    made.backbone.blocks[2].scale.requires_grad_(False)
    return made


def all_norms() -> Classifier:
    """Every block is frozen in the same part."""
    made = Classifier().requires_grad_(True)
    for block in made.backbone.blocks:
        block.norm.requires_grad_(False)
    return made


def nothing_trained() -> Classifier:
    return Classifier().requires_grad_(False)


class Words(nn.Module):
    """A pretrained table and fixed positions."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.randn(11, 6))
        self.position = nn.Parameter(torch.randn(1, 7, 6), requires_grad=False)
        self.out = nn.Linear(6, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.table(tokens) + self.position)


class Tied(nn.Module):
    """A frozen table that is the head's weight, too."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.mid, self.out = nn.Embedding(11, 6), nn.Linear(6, 6), nn.Linear(6, 11, bias=False)
        self.out.weight = self.table.weight
        self.table.weight.requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(torch.tanh(self.mid(self.table(tokens))))


class Adapted(nn.Module):
    """A frozen layer with a trained adapter of low rank beside it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.a, self.b = nn.Parameter(0.1 * torch.randn(2, inputs)), nn.Parameter(0.1 * torch.randn(outputs, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.a.T @ self.b.T


class Adapters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Adapted(6, 7), Adapted(7, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.attention.in_proj_weight.requires_grad_(False)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
        self.encoder.self_attn.requires_grad_(False)
        self.encoder.linear1.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.two(torch.relu(self.one(x)))
        return self.encoder(x + self.attention(x, x, x)[0])


class Holders(nn.Module):
    """Frozen parameters in lists and dicts, and in a layer the bias alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.first.bias.requires_grad_(False)
        self.some = nn.ParameterList([nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3), requires_grad=False)])
        self.named = nn.ParameterDict({"a": nn.Parameter(torch.randn(3), requires_grad=False)})
        self.listed = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)]).requires_grad_(False)
        self.row = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.row(self.first(x)) * self.some[0] + self.some[1] * self.named["a"]
        for layer in self.listed:
            x = torch.tanh(layer(x))
        return x


class Teacher(nn.Module):
    """A frozen copy that follows the trained layer, as forward writes it, and a frozen mean of what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False)
        self.mean = nn.Parameter(torch.rand(4), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                self.teacher.weight.mul_(0.9).add_(self.student.weight, alpha=0.1)
                self.mean.mul_(0.8).add_(x.mean(0), alpha=0.2)
        return self.student(x - self.mean) - self.teacher(x)


INPUTS = {
    Enhance: lambda: torch.randn(2, 3, 7),
    Classifier: lambda: torch.randn(4, 2, 7, 6),
    Words: lambda: torch.randint(0, 11, (2, 7)),
    Tied: lambda: torch.randint(0, 11, (2, 7)),
    Adapters: lambda: torch.randn(2, 3, 6),
    Holders: lambda: torch.randn(5, 4),
    Teacher: lambda: torch.randn(5, 4),
}
"""Example inputs, by class."""
