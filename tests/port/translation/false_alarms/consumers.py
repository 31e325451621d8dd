"""What exposes a quantity that is zero in exact arithmetic, or tiny by cancellation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .normalisers import Known


class MeanOver(nn.Module):
    """The mean over the axes over which the activations were normalised."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, y: Tensor) -> Tensor:
        return y.mean(self.axes)


class SumOver(MeanOver):
    """The sum over these axes."""

    def forward(self, y: Tensor) -> Tensor:
        return y.sum(self.axes)


class NormalisedMean(MeanOver):
    """The mean over these axes, divided by its own size and an epsilon."""

    def forward(self, y: Tensor) -> Tensor:
        mean = y.mean(self.axes)
        return F.layer_norm(mean, mean.shape[-1:])


class VarianceMinusOne(MeanOver):
    """What epsilon leaves of the variance."""

    def forward(self, y: Tensor) -> Tensor:
        return y.var(self.axes, unbiased=False) - 1


class MeanOfGroups(nn.Module):
    """The mean over each of two groups of channels and their places."""

    def forward(self, y: Tensor) -> Tensor:
        return y.unflatten(1, (2, -1)).flatten(2).mean(2)


class SumMinusOne(SumOver):
    """The sum over these axes, minus one."""

    def forward(self, y: Tensor) -> Tensor:
        return y.sum(self.axes) - 1


class Logsumexp(MeanOver):
    """The logarithm of the sum of all probabilities."""

    def forward(self, y: Tensor) -> Tensor:
        return y.logsumexp(self.axes)


class NormMinusOne(MeanOver):
    """The norm over these axes, minus one."""

    def forward(self, y: Tensor) -> Tensor:
        return y.norm(dim=self.axes) - 1


class SquaresMinusOne(MeanOver):
    """The mean square over these axes, minus one."""

    def forward(self, y: Tensor) -> Tensor:
        return y.square().mean(self.axes) - 1


class CentredMean(nn.Module):
    """The mean of what has lost its mean."""

    def forward(self, y: Tensor) -> Tensor:
        return (y - y.mean(-1, keepdim=True)).mean(-1)


class ConstantVariance(nn.Module):
    """The variance of one value, repeated."""

    def forward(self, y: Tensor) -> Tensor:
        return y[..., :1].expand_as(y).var(-1)


class ConstantNorm(nn.Module):
    """One value, repeated, behind a LayerNorm."""

    def forward(self, y: Tensor) -> Tensor:
        return F.layer_norm(y[..., :1].tanh().expand_as(y), y.shape[-1:])


class CrossCovariance(nn.Module):
    """The covariance of activations with a constant."""

    def forward(self, y: Tensor) -> Tensor:
        mean = y.mean(-1, keepdim=True)
        return ((y - mean) * mean).mean(-1)


class EqualBranches(nn.Module):
    """The difference of two layers with the same weights, one of them in two halves."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.randn(5))
        self.another = nn.Parameter(torch.randn(5))

    def forward(self, y: Tensor) -> Tensor:
        y = y[..., :1]
        return y * (self.one + self.another) - y * self.one - y * self.another


class LogsumexpDifference(nn.Module):
    """The logsumexp of shifted activations, without the shift and what there was before."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift = shift

    def forward(self, y: Tensor) -> Tensor:
        return (y + self.shift).logsumexp(-1) - y.logsumexp(-1) - self.shift


class SoftmaxDifference(LogsumexpDifference):
    """The softmax of shifted activations, minus that of what there was before."""

    def forward(self, y: Tensor) -> Tensor:
        return (y + self.shift).softmax(-1) - y.softmax(-1)


class SkewProduct(nn.Module):
    """The product of a vector with what a skew-symmetric matrix makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, y: Tensor) -> Tensor:
        y = y[..., :4]
        return (y @ (self.weight - self.weight.mT) * y).sum(-1)


class OrthogonalRest(nn.Module):
    """What a projection leaves of the vectors onto which it projects."""

    def __init__(self) -> None:
        super().__init__()
        basis = torch.linalg.qr(torch.randn(7, 3, dtype=torch.float64))[0]
        self.register_buffer("basis", basis)

    def forward(self, y: Tensor) -> Tensor:
        inside = y[..., :3] @ self.basis.to(y.dtype).mT
        return inside - inside @ self.basis.to(y.dtype) @ self.basis.to(y.dtype).mT


class OwnScale(nn.Module):
    """A vector divided by its norm, at a scale that its gradient does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.7))

    def forward(self, y: Tensor) -> Tensor:
        y = self.scale * y
        return y / y.norm(dim=-1, keepdim=True)


class Trigonometric(nn.Module):
    """The squares of sine and cosine, minus one."""

    def forward(self, y: Tensor) -> Tensor:
        return y.sin() ** 2 + y.cos() ** 2 - 1


class LogOdds(nn.Module):
    """The logarithm of the odds of a sigmoid, minus what went into it."""

    def forward(self, y: Tensor) -> Tensor:
        return F.logsigmoid(y) - F.logsigmoid(-y) - y


class Exponential(nn.Module):
    """Two ways to write the exponential function minus one."""

    def forward(self, y: Tensor) -> Tensor:
        return torch.expm1(y) - (y.exp() - 1)


class RunningSum(nn.Module):
    """The last of the running sums, minus the sum."""

    def forward(self, y: Tensor) -> Tensor:
        return y.cumsum(-1)[..., -1] - y.sum(-1)


class RoundTrip(nn.Module):
    """A Fourier transform and back, minus what went into it."""

    def forward(self, y: Tensor) -> Tensor:
        return torch.fft.ifft(torch.fft.fft(y)).real - y


class Saturated(nn.Module):
    """An activation function far out."""

    def __init__(self, function: Callable[[Tensor], Tensor], shift: float) -> None:
        super().__init__()
        self.function = function
        self.shift = shift

    def forward(self, y: Tensor) -> Tensor:
        return self.function(y + self.shift)


@dataclass(frozen=True)
class Consumer:
    """A module and what it asks of the activations.

    Attributes:
        name: for people.
        build: makes the module for the axes over which they were normalised.
        known: what must hold of them; None where it takes any.
    """

    name: str
    build: Callable[[tuple[int, ...]], nn.Module]
    known: Known | None = None


def _saturated(name: str, function: Callable[[Tensor], Tensor], shift: float) -> Consumer:
    return Consumer(f"{name} at {shift:+g}", lambda axes: Saturated(function, shift))


CONSUMERS = (
    Consumer("mean", MeanOver, Known.ZERO_MEAN),
    Consumer("sum", SumOver, Known.ZERO_MEAN),
    Consumer("normalised mean", NormalisedMean, Known.ZERO_MEAN),
    Consumer("variance minus one", VarianceMinusOne, Known.ZERO_MEAN),
    Consumer("mean of groups", lambda axes: MeanOfGroups(), Known.ZERO_MEAN_IN_GROUPS),
    Consumer("sum minus one", SumMinusOne, Known.SUM_ONE),
    Consumer("logsumexp", Logsumexp, Known.LOG_SUM_ONE),
    Consumer("norm minus one", NormMinusOne, Known.NORM_ONE),
    Consumer("squares minus one", SquaresMinusOne, Known.SQUARES_ONE),
    Consumer("the activations themselves", lambda axes: nn.Identity()),
    Consumer("centred mean", lambda axes: CentredMean()),
    Consumer("variance of a constant", lambda axes: ConstantVariance()),
    Consumer("LayerNorm of a constant", lambda axes: ConstantNorm()),
    Consumer("cross-covariance", lambda axes: CrossCovariance()),
    Consumer("equal branches", lambda axes: EqualBranches()),
    Consumer("logsumexp difference", lambda axes: LogsumexpDifference(3.3)),
    Consumer("softmax difference", lambda axes: SoftmaxDifference(3.3)),
    Consumer("skew product", lambda axes: SkewProduct()),
    Consumer("orthogonal rest", lambda axes: OrthogonalRest()),
    Consumer("own scale", lambda axes: OwnScale()),
    Consumer("sine and cosine", lambda axes: Trigonometric()),
    Consumer("log-odds", lambda axes: LogOdds()),
    Consumer("exponential minus one", lambda axes: Exponential()),
    Consumer("running sum", lambda axes: RunningSum()),
    Consumer("Fourier round trip", lambda axes: RoundTrip()),
    _saturated("GELU", F.gelu, -9.0),
    _saturated("GELU", F.gelu, -6.0),
    _saturated("GELU", F.gelu, 9.0),
    _saturated("sigmoid", torch.sigmoid, 38.0),
    _saturated("sigmoid", torch.sigmoid, -38.0),
    _saturated("tanh", torch.tanh, 19.0),
    _saturated("softplus", F.softplus, -38.0),
    _saturated("softplus", F.softplus, 38.0),
    _saturated("erf", torch.erf, 6.0),
    _saturated("ELU", F.elu, -37.0),
    _saturated("SiLU", F.silu, -38.0),
    _saturated("mish", F.mish, -37.0),
    _saturated("log-sigmoid", F.logsigmoid, 38.0),
    _saturated("tanhshrink", F.tanhshrink, 0.0),
)
