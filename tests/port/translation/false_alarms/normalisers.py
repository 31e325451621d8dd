"""What normalises the activations, and what is known of its result in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import torch.nn.functional as F
from torch import Tensor, nn


class Known(Enum):
    """What holds of the normalised activations in exact arithmetic, but for epsilon."""

    ZERO_MEAN = auto()
    ZERO_MEAN_IN_GROUPS = auto()
    SUM_ONE = auto()
    LOG_SUM_ONE = auto()
    NORM_ONE = auto()
    SQUARES_ONE = auto()
    NOTHING = auto()


class Over(nn.Module):
    """A function over the axis of the features."""

    def __init__(self, function: Callable[..., Tensor], dim: int) -> None:
        super().__init__()
        self.function = function
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, dim=self.dim)


class OfFeatures(nn.Module):
    """A norm of channels at axis 1, for features at the last one."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class Standardise(nn.Module):
    """LayerNorm as people write it by hand."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True, unbiased=False)
        return (x - mean) / (variance + 1e-5).sqrt()


class Centre(nn.Module):
    """Activations without their mean."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(self.dim, keepdim=True)


@dataclass(frozen=True)
class Normaliser:
    """A layer and what it leaves.

    Attributes:
        name: for people.
        build: makes the layer for so many channels.
        channels_first: whether it takes (N, C, H, W); otherwise (N, L, D).
        known: what holds of its result.
        axes: over which.
        gains: whether a random gain leaves that as it is: no axis over which it holds has one gain a place.
    """

    name: str
    build: Callable[[int], nn.Module]
    channels_first: bool
    known: Known
    axes: tuple[int, ...]
    gains: bool = False


NORMALISERS = (
    # (N, C, H, W)
    Normaliser("GroupNorm", lambda n: nn.GroupNorm(2, n), True, Known.ZERO_MEAN_IN_GROUPS, (2, 3)),
    Normaliser("GroupNorm of one channel a group", lambda n: nn.GroupNorm(n, n), True, Known.ZERO_MEAN, (2, 3), True),
    Normaliser("InstanceNorm", lambda n: nn.InstanceNorm2d(n, affine=True), True, Known.ZERO_MEAN, (2, 3), True),
    Normaliser("BatchNorm", nn.BatchNorm2d, True, Known.ZERO_MEAN, (0, 2, 3), True),
    Normaliser("normalize", lambda n: Over(F.normalize, 1), True, Known.NORM_ONE, (1,)),
    Normaliser("softmax", lambda n: Over(F.softmax, 1), True, Known.SUM_ONE, (1,)),
    # (N, L, D)
    Normaliser("LayerNorm", nn.LayerNorm, False, Known.ZERO_MEAN, (-1,)),
    Normaliser("LayerNorm by hand", lambda n: Standardise(), False, Known.ZERO_MEAN, (-1,)),
    Normaliser("RMSNorm", lambda n: nn.RMSNorm(n, eps=1e-6), False, Known.SQUARES_ONE, (-1,)),
    Normaliser("softmax", lambda n: Over(F.softmax, -1), False, Known.SUM_ONE, (-1,)),
    Normaliser("log_softmax", lambda n: Over(F.log_softmax, -1), False, Known.LOG_SUM_ONE, (-1,)),
    Normaliser("normalize", lambda n: Over(F.normalize, -1), False, Known.NORM_ONE, (-1,)),
    Normaliser("centring", lambda n: Centre(-1), False, Known.ZERO_MEAN, (-1,)),
    Normaliser("BatchNorm", lambda n: OfFeatures(nn.BatchNorm1d(n)), False, Known.ZERO_MEAN, (0, 1), True),
    Normaliser("nothing", lambda n: nn.Identity(), False, Known.NOTHING, (-1,)),
)
