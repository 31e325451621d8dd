"""Constructors that are kept: the parameters and the buffers that they make, and what the written class has besides."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import port
from tests.port.translation.test_kept_constructors import distance


class Dropping(nn.Module):
    """Holds its rate under the name that a layer of dropout has by default."""

    def __init__(self, width: int, rate: float = 0.25) -> None:
        super().__init__()
        self.dropout = rate
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.linear(x), self.dropout, self.training) * self.dropout


class Noisy(nn.Module):
    """Draws in its call."""

    def __init__(self, width: int, depth: int = 2, rate: float = 0.2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Dropping(width * 2**i, rate * (i + 1)) for i in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x + torch.rand_like(x)


class Gains(nn.Module):
    """Parameters in a list, made one by one."""

    def __init__(self, width: int = 3, depth: int = 2) -> None:
        super().__init__()
        widths = [width + 2 * i for i in range(depth + 1)]
        pairs = list(pairwise(widths))
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairs])
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(b)) for b in widths[1:]])

    def forward(self, x: Tensor) -> Tensor:
        for layer, gain in zip(self.layers, self.gains, strict=True):
            x = layer(x) * gain
        return x


class Norm(nn.Module):
    """A parameter that some instances do not have."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class WithoutBias(nn.Module):
    def __init__(self, width: int = 6, bias: bool = False) -> None:
        super().__init__()
        self.first = Norm(width, bias)
        self.linear = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.first(x))


class Drawn(nn.Module):
    """A buffer whose numbers come from a generator, which JAX has none of."""

    def __init__(self, width: int = 3, length: int = 5) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        self.linear = nn.Linear(4, width)
        self.register_buffer("queue", torch.randn(length, width, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) @ self.queue.T


class Tied(nn.Module):
    """One table for what goes in and what comes out."""

    def __init__(self, tokens: int = 7, width: int = 4) -> None:
        super().__init__()
        self.inside = nn.ModuleDict({"embed": nn.Embedding(tokens, width)})
        self.head = nn.Linear(width, tokens, bias=False)
        self.inside["embed"].weight = self.head.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inside["embed"](ids)))


def translated(construct: Callable[[], nn.Module], x: Tensor) -> Any:
    torch.manual_seed(0)
    translation = port.translate(construct(), x, construct=construct)
    assert translation.proof is not None
    assert translation.proof.agrees, translation.proof
    return translation


@pytest.mark.sweep
def test_a_class_that_draws_has_its_streams_behind_what_the_original_makes() -> None:
    translation = translated(lambda: Noisy(3, 2, 0.2), torch.randn(2, 3))
    source = translation.source
    assert "self.dropout = rate\n" in source
    assert "self.dropout_layer = nnx.Dropout(self.dropout, rngs=rngs)" in source
    assert "return self.dropout_layer(self.linear(x)) * self.dropout" in source
    assert "Dropping(width * 2 ** i, rate * (i + 1), **options) for i in range(depth)" in source.replace(
        "2**i", "2 ** i"
    )
    assert "self.rngs = rngs" in source
    assert "width: int, depth: int = 2, rate: float = 0.2" in " ".join(source.split())


@pytest.mark.parametrize(
    ("construct", "x", "other", "arguments", "lines"),
    [
        pytest.param(
            Gains,
            torch.randn(2, 3),
            Gains(3, 4),
            {"depth": 4},
            ["[nnx.Param(jnp.ones((b,), param_dtype)) for b in widths[1:]]"],
            id="a list of parameters",
        ),
        pytest.param(
            Drawn, torch.randn(2, 4), Drawn(2, 6), {"width": 2, "length": 6}, ["(length, width)"], id="a generator"
        ),
        pytest.param(
            Tied, torch.randint(7, (2, 3)), Tied(7, 5), {"width": 5}, ["nnx.Embed( tokens, width"], id="a tied table"
        ),
        pytest.param(
            WithoutBias,
            torch.randn(2, 6),
            WithoutBias(4),
            {"width": 4},
            ["return F.layer_norm(x, self.weight.shape, self.weight[...])"],
            id="no biases",
        ),
    ],
)
@pytest.mark.sweep
def test_what_it_holds_follows_its_arguments(
    construct: Callable[[], nn.Module], x: Tensor, other: nn.Module, arguments: dict[str, Any], lines: list[str]
) -> None:
    translation = translated(construct, x)
    source = " ".join(translation.source.split())
    for line in lines:
        assert line in source
    assert "Generator" not in translation.source
    x = x[:, : arguments["width"]] if "6" in str(x.shape) and "width" in arguments else x
    assert distance(translation, other, x, **arguments) < 1e-5
