"""Random numbers in training are the same on both sides, in any layout, and a wrong rate is caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import StochasticDepth

import port
from port.translation.verify import Proof, prove

FLAX = "ignore:`flax.nnx.State` will be deprecated:DeprecationWarning"
pytestmark = pytest.mark.filterwarnings(FLAX)


class Images(nn.Module):
    """Every kind of dropout layer between convolutions, where JAX has another order of axes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, bias=False)
        self.drop = nn.Dropout(0.3)
        self.channels = nn.Dropout2d(0.4)
        self.alpha = nn.AlphaDropout(0.25)
        self.slopes = nn.RReLU(0.1, 0.4)
        self.depth = StochasticDepth(0.5, "row")
        self.last = nn.Conv2d(6, 3, (1, 2))
        self.never = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.channels(self.drop(self.conv(x)))
        x = x + self.depth(self.slopes(x)) * self.alpha(x)
        return self.never(self.last(x)).flatten(1)


class Attention(nn.Module):
    """Functional dropout, and attention with dropout of its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(x, 0.2, self.training)
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.35 if self.training else 0.0, is_causal=True)
        return F.dropout(self.out(y.transpose(1, 2).flatten(2)), 0.1, self.training)


class Always(nn.Module):
    """Dropout in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.linear(x).unflatten(-1, (2, 4)).transpose(1, 2)
        return F.dropout(F.scaled_dot_product_attention(q, q, q, dropout_p=0.4), 0.3)


class Deep(nn.Module):
    """Dropout inside layers that are kept whole."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, 2, dropout=0.5, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.3, batch_first=True)
        self.drop = nn.Dropout(0.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.layer(self.lstm(x)[0]))


def given(cls: type[nn.Module]) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(3)
    module = cls()
    return module, torch.randn((3, 2, 9, 8) if cls is Images else (3, 5, 8))


@pytest.mark.sweep
@pytest.mark.parametrize("cls", [Images, Attention, Always, Deep])
def test_masks_are_the_same_on_both_sides(cls: type[nn.Module]) -> None:
    module, x = given(cls)
    proof = port.translate(module, x).proof
    assert proof is not None and proof.agrees, str(proof)
    assert ("dropout was off inside lstm, layer" in str(proof)) == (cls is Deep)


FAULTS = [
    (Images, "nnx.Dropout(0.3,", "nnx.Dropout(0.31,"),
    (Images, "broadcast_dims=(-3, -2), ", ""),
    (Images, "AlphaDropout(rate=0.25,", "AlphaDropout(rate=0.26,"),
    (Images, "lower=0.1, upper=0.4", "lower=0.11, upper=0.39"),
    (Images, "StochasticDepth(0.5,", "StochasticDepth(0.51,"),
    (Images, "StochasticDepth(0.5,", 'StochasticDepth(0.5, "batch",'),
    (Attention, "nnx.Dropout(0.35,", "nnx.Dropout(0.36,"),
    (Attention, "nnx.Dropout(0.1,", "nnx.Dropout(0.0,"),
    (Deep, "nnx.Dropout(0.4,", "nnx.Dropout(0.41,"),
]


@pytest.mark.sweep
@pytest.mark.parametrize(("cls", "before", "after"), FAULTS, ids=[after for _, _, after in FAULTS])
def test_another_rate_is_seen(cls: type[nn.Module], before: str, after: str) -> None:
    module, x = given(cls)
    made = port.translate(module, x, check=False)
    proof = changed(module, made, x, before, after)
    assert not proof.agrees
    assert [row.what for row in proof.rows if not row.agrees][:1] == ["outputs in training"], str(proof)


@pytest.mark.sweep
def test_a_dropout_too_many_is_seen() -> None:
    module, x = given(Attention)
    made = port.translate(module, x, check=False)
    line = next(line for line in made.source.splitlines() if "return self.dropout" in line)
    assert not changed(module, made, x, line, line.replace("return ", "return self.dropout(") + ")").agrees


def changed(module: nn.Module, made: Any, x: torch.Tensor, before: str, after: str) -> Proof:
    assert made.source.count(before) == 1, made.source
    return prove(module, replace(made, source=made.source.replace(before, after)), (x,), {})
