"""Containers: lists, dictionaries, sequences in sequences, subclasses of Sequential, widths that differ."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


class ConvBNReLU(nn.Sequential):
    def __init__(self, in_planes: int, out_planes: int, kernel_size: int = 3, stride: int = 1, groups: int = 1) -> None:
        padding = (kernel_size - 1) // 2
        super().__init__(
            nn.Conv2d(in_planes, out_planes, kernel_size, stride, padding, groups=groups, bias=False),
            nn.BatchNorm2d(out_planes),
            nn.ReLU6(inplace=True),
        )


def mlp(
    sizes: list[int], activation: type[nn.Module] = nn.Tanh, output_activation: type[nn.Module] = nn.Identity
) -> nn.Sequential:
    layers: list[nn.Module] = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


def nested() -> nn.Sequential:
    """No class at all: sequences in a sequence, named and numbered."""
    return nn.Sequential(
        OrderedDict(
            [
                ("stem", ConvBNReLU(3, 4)),
                (
                    "body",
                    nn.Sequential(
                        nn.Sequential(nn.Conv2d(4, 6, (3, 2)), nn.LeakyReLU(0.1)),
                        nn.Sequential(nn.AvgPool2d(2), nn.Identity()),
                    ),
                ),
                ("reshape", nn.Sequential(nn.Flatten(start_dim=2), nn.Unflatten(1, (2, 3)), nn.Flatten())),
                ("head", mlp([6 * 6, 5, 3], nn.Softplus)),
            ]
        )
    )


class ConvNormActivation(nn.Sequential):
    """Ends in an activation that its caller chooses, or in none."""

    def __init__(self, inputs: int, outputs: int, activation_layer: type[nn.Module] | None = nn.ReLU) -> None:
        layers: list[nn.Module] = [nn.Conv1d(inputs, outputs, 3, bias=False), nn.BatchNorm1d(outputs)]
        super().__init__(*layers, *([activation_layer()] if activation_layer else []))


class Activations(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNormActivation(2, 5)
        self.gate = ConvNormActivation(5, 4, nn.Hardswish)
        self.project = ConvNormActivation(4, 3, None)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.gate(self.stem(x)))


class Widths(nn.Module):
    """Blocks of differing widths in a loop, and what they give collected."""

    def __init__(self, widths: tuple[int, ...] = (5, 7, 4, 6)) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)])
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(b)) for b in widths[1:]])
        self.last = len(widths) - 2

    def forward(self, x: Tensor) -> Tensor:
        collected = []
        for i, (layer, gain) in enumerate(zip(self.layers, self.gains, strict=True)):
            x = layer(x) * gain
            if i != self.last:
                x = F.mish(x)
            collected.append(x.mean(dim=-1))
        return torch.stack(collected, dim=1) + x.sum(1, keepdim=True)


class ByName(nn.Module):
    """Branches by name, in a dictionary of dictionaries; parameters in one too."""

    def __init__(self, tasks: dict[str, int]) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict({"image": nn.Linear(6, 4), "text": nn.Linear(3, 4)})
        self.heads = nn.ModuleDict()
        for task, n in tasks.items():
            self.heads[task] = nn.ModuleDict({"norm": nn.LayerNorm(4), "out": nn.Linear(4, n)})
        self.temperature = nn.ParameterDict({task: torch.full((1,), 0.7) for task in tasks})

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        shared = sum(self.encoders[key](value) for key, value in batch.items())
        return {
            name: head["out"](head["norm"](shared)) / (self.temperature[name].abs() + 0.5)
            for name, head in self.heads.items()
        }


class Sliced(nn.Module):
    """Parts of a Sequential, by slice, index and iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Conv1d(4, 5, 3, stride=2), nn.Hardtanh(-0.7, 1.1), nn.Conv1d(5, 3, 1)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        low = self.features[:2](x)
        middle = low
        for layer in self.features[2:-1]:
            middle = layer(middle)
        return low.amax(-1), middle.amin(dim=-1), self.features[-1](middle)


class ResidualMLP(nn.Module):
    def __init__(self, dim: int = 6, depth: int = 3) -> None:
        super().__init__()
        self.input = nn.Linear(4, dim)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(dim), nn.Linear(dim, 2 * dim), nn.ELU(0.8), nn.Linear(2 * dim, dim))
            for _ in range(depth)
        )
        # every block begins as the identity
        for block in self.blocks:
            nn.init.zeros_(block[-1].weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.input(x)
        for block in self.blocks:
            x = x + block(x)
        return x


EXAMPLES = (
    Example(
        "nested_sequential", nested, lambda: given(floats(2, 3, 7, 8)), "sequences in sequences, Flatten, Unflatten"
    ),
    Example("activations", Activations, lambda: given(floats(3, 2, 11)), "one Sequential of one's own, several ends"),
    Example("widths", Widths, lambda: given(floats(3, 5)), "blocks of differing widths, ParameterList, enumerate"),
    Example(
        "module_dict",
        lambda: ByName({"depth": 2, "label-map": 5}),
        lambda: given({"image": floats(3, 6), "text": floats(3, 3, seed=1)}),
        "ModuleDict in ModuleDict, ParameterDict, a key that is no name in Python",
    ),
    Example("sliced_sequential", Sliced, lambda: given(floats(2, 2, 9)), "slices of a Sequential"),
    Example("residual_mlp", ResidualMLP, lambda: given(floats(4, 4)), "pre-norm blocks in a list, BatchNorm1d"),
    Example("mlp_function", lambda: mlp([4, 7, 3], nn.SiLU, nn.LogSigmoid), lambda: given(floats(3, 4)), "no class"),
)
