"""Modules that torch runs and cannot differentiate."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .wholes import Whole


class ChangedForBackward(nn.Module):
    """The result of an exponential function is changed in place, and its backward pass needs it as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x).exp()
        y.add_(1)
        return y * 2


class ChangedPart(nn.Module):
    """A part of a sigmoid's result is overwritten."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        gates = torch.sigmoid(self.layer(x))
        gates[..., 0] = 0.0
        return gates @ self.layer.weight


class ChangedWeight(nn.Module):
    """A weight is normalised in place behind the product that was made with it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 8))

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight.T
        with torch.no_grad():
            self.weight[0].mul_(0.5)
        return y


class ChangedInput(nn.Module):
    """A factor is changed after the product was made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        hidden = x.tanh()
        product = hidden * self.weight
        hidden.zero_()
        return product + hidden


class ChangedByUnbind(nn.Module):
    """One of several views that `unbind` made is changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        first, *_, last = self.layer(x).unbind(1)
        first.mul_(2)
        return first - last


class ChangedByChunk(nn.Module):
    """One of the views that `chunk` made is changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.layer(x).chunk(2, -1)
        value *= gate.sigmoid()
        return value


class ChangedViewOfNoGrad(nn.Module):
    """A view that was made without gradients is changed with them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        with torch.no_grad():
            first = y[..., 0]
        first.mul_(3)
        return y


class ChangedState(nn.Module):
    """A state that the product needs is moved on behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.register_buffer("average", torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.weight * self.average
        self.average.mul_(0.9).add_(0.1 * x.detach().mean((0, 1)))
        return y


class WithoutFormulaOfZeta(nn.Module):
    """torch has no gradient of the zeta function by its first argument."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.special.zeta(self.layer(x).exp() + 1.5, torch.full((6,), 1.5, dtype=x.dtype))


class WithoutFormulaOfGamma(nn.Module):
    """torch has no gradient of the incomplete gamma function by its first argument."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.igamma(self.layer(x).exp(), torch.ones(6, dtype=x.dtype))


class _Square(torch.autograd.Function):
    """A square without a backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * x


class WithoutBackward(nn.Module):
    """A function of one's own of which the backward pass is not written."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        return _Square.apply(self.layer(x)) + 1


class UnderNoGrad(nn.Module):
    """Nothing depends smoothly on anything."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).argmax(-1)


class InPlaceRelu(nn.Module):
    """An in-place ReLU behind a square root, which needs its own result."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.layer(x)).square().sqrt()
        y.sub_(0.5).relu_()
        return y.mean(-1)


UNDIFFERENTIABLE = tuple(
    Whole(name, build, (3, 5, 8))
    for name, build in {
        "changed what exp needs": ChangedForBackward,
        "overwritten part of a sigmoid": ChangedPart,
        "weight changed behind its product": ChangedWeight,
        "factor changed behind its product": ChangedInput,
        "view of unbind changed": ChangedByUnbind,
        "view of chunk changed": ChangedByChunk,
        "view of no_grad changed": ChangedViewOfNoGrad,
        "state moved on behind its product": ChangedState,
        "zeta function": WithoutFormulaOfZeta,
        "incomplete gamma function": WithoutFormulaOfGamma,
        "function without a backward pass": WithoutBackward,
        "no_grad": UnderNoGrad,
        "in-place ReLU behind a square root": InPlaceRelu,
    }.items()
)
