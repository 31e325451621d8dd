"""Right pairs that faults are planted into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import consumers, normalisers, undifferentiable, wholes
from .generator import Beside, Bias, Composed, Gain, Scalar

IMAGE, SEQUENCE = (3, 5, 6, 5), (3, 5, 8)


@dataclass(frozen=True)
class Base:
    """A right pair that faults are planted into.

    Attributes:
        build: makes the module.
        shape: of its input.
    """

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]


def _of_features(
    normaliser: nn.Module, consumer: nn.Module, before: nn.Module | None = None, cls: type[Composed] = Composed
) -> Composed:
    return cls(nn.Linear(8, 8), before or nn.Identity(), normaliser, consumer)


def _of_images(
    normaliser: nn.Module, consumer: nn.Module, before: nn.Module | None = None, cls: type[Composed] = Composed
) -> Composed:
    return cls(nn.Conv2d(5, 6, 3), before or nn.Identity(), normaliser, consumer)


def _saturated(function: Callable[[Tensor], Tensor], shift: float) -> Base:
    return Base(lambda: _of_features(nn.LayerNorm(8), consumers.Saturated(function, shift)), SEQUENCE)


BASES = {
    "mean of LayerNorm": Base(
        lambda: _of_features(normalisers.Standardise(), consumers.MeanOver((-1,)), Scalar()), SEQUENCE
    ),
    "mean beside LayerNorm": Base(
        lambda: _of_features(nn.LayerNorm(8), consumers.MeanOver((-1,)), cls=Beside), SEQUENCE
    ),
    "mean of GroupNorm": Base(lambda: _of_images(nn.GroupNorm(6, 6), consumers.MeanOver((2, 3))), IMAGE),
    "mean of two groups": Base(lambda: _of_images(nn.GroupNorm(2, 6), consumers.MeanOfGroups()), IMAGE),
    "mean of BatchNorm": Base(
        lambda: _of_images(nn.BatchNorm2d(6), consumers.MeanOver((0, 2, 3)), Bias((6, 1, 1))), IMAGE
    ),
    "variance of InstanceNorm": Base(
        lambda: _of_images(nn.InstanceNorm2d(6), consumers.VarianceMinusOne((2, 3))), IMAGE
    ),
    "squares of RMSNorm": Base(
        lambda: _of_features(nn.RMSNorm(8, eps=1e-6), consumers.SquaresMinusOne((-1,)), Gain()), SEQUENCE
    ),
    "sum of softmax": Base(
        lambda: _of_features(normalisers.Over(F.softmax, -1), consumers.SumMinusOne((-1,)), Scalar()), SEQUENCE
    ),
    "norm of normalize": Base(
        lambda: _of_features(normalisers.Over(F.normalize, -1), consumers.NormMinusOne((-1,))), SEQUENCE
    ),
    "variance of a constant": Base(lambda: _of_features(nn.Identity(), consumers.ConstantVariance()), SEQUENCE),
    "cross-covariance": Base(lambda: _of_features(nn.Identity(), consumers.CrossCovariance()), SEQUENCE),
    "equal branches": Base(lambda: _of_features(nn.Identity(), consumers.EqualBranches()), SEQUENCE),
    "logsumexp difference": Base(lambda: _of_features(nn.Identity(), consumers.LogsumexpDifference(3.3)), SEQUENCE),
    "skew product": Base(lambda: _of_features(nn.Identity(), consumers.SkewProduct()), SEQUENCE),
    "orthogonal rest": Base(lambda: _of_features(nn.Identity(), consumers.OrthogonalRest()), SEQUENCE),
    "own scale": Base(lambda: _of_features(nn.Identity(), consumers.OwnScale()), SEQUENCE),
    "sine and cosine": Base(lambda: _of_features(nn.Identity(), consumers.Trigonometric()), SEQUENCE),
    "Fourier round trip": Base(lambda: _of_images(nn.InstanceNorm2d(6), consumers.RoundTrip(), Bias((6, 1, 1))), IMAGE),
    "GELU at -4": _saturated(F.gelu, -4.0),
    "GELU at -6": _saturated(F.gelu, -6.0),
    "sigmoid at 12": _saturated(torch.sigmoid, 12.0),
    "sigmoid at 20": _saturated(torch.sigmoid, 20.0),
    "softplus at -12": _saturated(F.softplus, -12.0),
    "ELU at -12": _saturated(F.elu, -12.0),
    "tanh at 6": _saturated(torch.tanh, 6.0),
    "erf at 3": _saturated(torch.erf, 3.0),
    "BatchNorms": Base(lambda: _with_random_state(wholes.NormConvNorm(6, 9)), (4, 6, 5, 4)),
    "fresh BatchNorms": Base(lambda: wholes.NormConvNorm(6, 9), (4, 6, 5, 4)),
    "LeViT": Base(lambda: wholes.Levit(6, 8, 2), (4, 6, 5, 4)),
    "BatchNorm of a mean": Base(lambda: wholes.NormPoolNorm(6), (4, 6, 5, 4)),
    "keys' bias": Base(lambda: wholes.KeyBiasAlone(8, 2), SEQUENCE),
    "scalar alone": Base(lambda: wholes.ScalarAlone(8), SEQUENCE),
    "gain alone": Base(wholes.GainAlone, SEQUENCE),
    "temperature": Base(lambda: wholes.Temperature(8), SEQUENCE),
    "contrastive loss": Base(lambda: wholes.ContrastiveLoss(8), SEQUENCE),
    "self-correlation": Base(lambda: wholes.BarlowTwins(8), SEQUENCE),
    "student and teacher": Base(lambda: wholes.StudentAndTeacher(8), SEQUENCE),
    "finite difference": Base(lambda: wholes.EulerStep(8), SEQUENCE),
    "rotated vector": Base(lambda: wholes.RotaryNorm(8), SEQUENCE),
    "post-norm block": Base(lambda: wholes.PostNormBlock(8), SEQUENCE),
    "exp changed in place": Base(undifferentiable.ChangedForBackward, SEQUENCE),
    "sigmoid overwritten": Base(undifferentiable.ChangedPart, SEQUENCE),
    "state moved on": Base(undifferentiable.ChangedState, SEQUENCE),
    "in-place ReLU": Base(undifferentiable.InPlaceRelu, SEQUENCE),
}


def _with_random_state(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for norm in module.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.running_mean.normal_()
                norm.running_var.uniform_(0.5, 1.5)
                norm.weight.uniform_(0.5, 1.5)
        module.second.bias.normal_()
    return module
