"""Models whose constructors each initialise their parameters in another way."""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


def sinusoids(length: int, width: int) -> torch.Tensor:
    """A table of positions, (length, width)."""
    rates = torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2 - 1))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class OwnNorm(nn.Module):
    """A layer norm written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class MLP(nn.Module):
    """Two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(3 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(F.gelu(self.c_fc(x)))


class Language(nn.Module):
    """A language model's start: tied weights, ``apply``, and what goes back to the residual stream scaled by depth."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(40, 12)
        self.wpe = nn.Embedding(9, 12)
        self.norms = nn.ModuleList([OwnNorm(12) for _ in range(2)])
        self.mlps = nn.ModuleList([MLP(12) for _ in range(2)])
        self.head = nn.Linear(12, 40, bias=False)
        self.wte.weight = self.head.weight
        self.apply(self._start)
        self.apply(self._start)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * len(self.mlps)))

    def _start(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            module.weight.data.normal_(mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.data.zero_()

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        x = self.wte(index) + self.wpe(torch.arange(index.shape[1]))
        for norm, mlp in zip(self.norms, self.mlps, strict=True):
            x = x + mlp(norm(x))
        return self.head(x)


class Stage(nn.Module):
    """A block that starts by how deep it stands."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 8)
        self.scale = nn.Parameter(0.1**depth * torch.ones(8))
        self.register_buffer("waves", torch.sin(torch.arange(24.0) * (depth + 1)).view(3, 8))
        nn.init.trunc_normal_(self.fc.weight, std=0.3 / math.sqrt(depth + 1), a=-0.4, b=0.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * self.fc(self.norm(x)) + self.waves.mean(0)


class Tables(nn.Module):
    """Fixed tables, read by every call; one of them is trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("positions", sinusoids(7, 8))
        self.register_buffer("mask", torch.tril(torch.ones(7, 7)), persistent=False)
        grid = torch.arange(7)
        self.register_buffer("offsets", (grid[:, None] - grid[None]).abs())
        self.biases = nn.Parameter(torch.zeros(7))
        self.trained = nn.Parameter(2 * sinusoids(7, 8))
        self.token = nn.Parameter(torch.empty(1, 1, 8))
        nn.init.normal_(self.token, std=0.5)
        self.stages = nn.ModuleList([Stage(depth) for depth in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.positions + self.trained + self.token
        for stage in self.stages:
            x = stage(x)
        return (x @ x.transpose(1, 2) + self.biases[self.offsets]) * self.mask


class Recurrent(nn.Module):
    """A recurrent layer with orthogonal weights and an open forget gate; rows, ranges and copies."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(12, 6, padding_idx=2)
        nn.init.normal_(self.table.weight, std=0.1)
        with torch.no_grad():
            self.table.weight[2].fill_(0)
        self.lstm = nn.LSTM(6, 5, batch_first=True)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight_hh"):
                for gate in parameter.chunk(4):
                    nn.init.orthogonal_(gate)
            elif name.startswith("bias"):
                parameter.data.fill_(0)
                parameter.data[5:10].fill_(1)
        self.attention = nn.MultiheadAttention(5, 1, batch_first=True)
        nn.init.normal_(self.attention.in_proj_weight, std=0.2)
        self.first = nn.Linear(5, 9)
        nn.init.orthogonal_(self.first.weight, gain=2.0)
        self.second = nn.Linear(9, 5)
        self.third = copy.deepcopy(self.second)
        nn.init.xavier_uniform_(self.third.weight, gain=0.5)
        step = torch.exp(torch.rand(5) * (math.log(0.1) - math.log(0.001)) + math.log(0.001)).clamp(min=1e-2)
        self.step = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.noise = nn.Parameter(torch.rand(9) * 2 + 1)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        x, _ = self.lstm(self.table(index))
        x, _ = self.attention(x, x, x)
        x = self.first(x * F.softplus(self.step)) * self.noise
        return self.second(x) + self.third(x)
