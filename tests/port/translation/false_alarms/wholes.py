"""Whole modules whose zero no single layer makes: a statistic, a gradient, a bias that cancels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .producers import Attention


class NormConvNorm(nn.Module):
    """A bias-free 1×1 convolution between two BatchNorms: it sees a mean of zero, and so does the second one."""

    def __init__(self, channels: int, inner: int, groups: int = 1) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, inner, 1, bias=False, groups=groups)
        self.second = nn.BatchNorm2d(inner)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.conv(self.first(x)))


class Bottleneck(nn.Module):
    """Pre-activation without an activation between its 1×1 convolutions, and a way around them."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.reduce = NormConvNorm(channels, inner)
        self.expand = nn.Conv2d(inner, channels, 1, bias=False)
        self.last = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.last(self.expand(self.reduce(x))))


class NormLinearNorm(nn.Module):
    """The same with features and a bias-free linear layer."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm1d(width), nn.Linear(width, inner, bias=False), nn.BatchNorm1d(inner, momentum=0.3)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class NormConvNorm1d(nn.Module):
    """The same with signals, and a running statistic that is a plain average."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm1d(channels), nn.Conv1d(channels, inner, 1, bias=False), nn.BatchNorm1d(inner, momentum=None)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class NormPoolNorm(nn.Module):
    """The average over everything between two BatchNorms: a zero is normalised."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.InstanceNorm2d(channels)
        self.second = nn.BatchNorm1d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).mean((2, 3)))


class NormedLinear(nn.Module):
    """A bias-free linear layer and its BatchNorm, as LeViT has them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, inner, bias=False)
        self.norm = nn.BatchNorm1d(inner)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return self.norm(y.flatten(0, 1)).reshape_as(y)


class Levit(nn.Module):
    """LeViT's first block: its stem ends with a BatchNorm, and that of queries, keys and values sees a mean of zero."""

    def __init__(self, channels: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.stem = nn.Sequential(nn.Conv2d(channels, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width))
        self.qkv = NormedLinear(width, 3 * width)
        self.project = NormedLinear(width, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.head((x + self.project(F.hardswish(y))).mean(1))


class KeyBiasAlone(nn.Module):
    """Attention whose keys' bias alone is trained: no output depends on it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads).requires_grad_(False)
        self.attention.key.bias.requires_grad_(True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x)


class ScalarAlone(nn.Module):
    """A scalar, the one trained parameter, before a LayerNorm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(0.7))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.shift)


class GainAlone(nn.Module):
    """A gain, the one trained parameter, before a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(1.3))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x * self.gain, dim=-1)


class Temperature(nn.Module):
    """Scores of equal tokens: whatever the temperature is, their softmax is one over their number."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(2.3))
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        scores = (x.mean(1, keepdim=True).expand_as(x) * self.weight).sum(-1)
        return (scores * self.temperature).softmax(-1)[..., None] * x


class ContrastiveLoss(nn.Module):
    """Normalised embeddings of two views that are the same: each is nearest to itself, and the loss next to nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        z = F.normalize(self.project(x.flatten(0, 1)), dim=-1)
        logits = z @ z.mT / 0.01
        return F.cross_entropy(logits, torch.arange(z.shape[0], device=x.device))


class BarlowTwins(nn.Module):
    """The cross-correlation of a batch with itself, minus one where it is one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(x.flatten(0, 1))
        return (z.mT @ z / z.shape[0]).diagonal() - 1


class StudentAndTeacher(nn.Module):
    """A student beside the teacher of which it is a copy, and the distance of both."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.student = nn.Linear(width, width)
        self.teacher = nn.Linear(width, width).requires_grad_(False)
        self.teacher.load_state_dict(self.student.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        student, teacher = self.student(x), torch.einsum("nld,od->nlo", x, self.teacher.weight) + self.teacher.bias
        return ((student - teacher) ** 2).mean() + F.kl_div(
            student.log_softmax(-1), teacher.softmax(-1), reduction="batchmean"
        )


class WeightStandardised(nn.Module):
    """A convolution with standardised weights of a constant image: it gives its bias alone."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, inner, 3)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.conv.weight
        weight = (weight - weight.mean((1, 2, 3), keepdim=True)) / weight.std((1, 2, 3), keepdim=True)
        return F.conv2d(x.mean((1, 2, 3), keepdim=True).expand_as(x), weight, None)


class SpectralGap(nn.Module):
    """The last singular value of a product that has not its rank."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, 2, bias=False)
        self.up = nn.Linear(2, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(self.down(x))
        gram = y.mT @ y
        return torch.linalg.det(gram / gram.diagonal(dim1=1, dim2=2).mean(-1)[:, None, None])


class EulerStep(nn.Module):
    """A finite difference: the numbers that were added are taken away again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return (self.layer(x + 1e-6).tanh() - self.layer(x).tanh()) / 1e-6


class RotaryNorm(nn.Module):
    """What a rotation adds to the squared length of a vector."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("angles", torch.rand(width // 2) * 3)

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        sine, cosine = self.angles.sin(), self.angles.cos()
        turned = torch.cat([first * cosine - second * sine, first * sine + second * cosine], -1)
        return turned.square().sum(-1) - x.square().sum(-1)


class PostNormBlock(nn.Module):
    """A block of a post-norm transformer: the last bias and a scalar before it, both before a LayerNorm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = Attention(width, 2)
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Parameter(torch.tensor(0.4))
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.last = nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x + self.attention(x) + self.gate)
        return self.last(x + self.down(F.gelu(self.up(x) - 8.0)) + self.gate).mean(-1)


@dataclass(frozen=True)
class Whole:
    """A whole module and its input's shape."""

    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]


_IMAGE, _SEQUENCE = (4, 6, 5, 4), (3, 5, 8)

WHOLES = (
    Whole("1x1 conv between BatchNorms", lambda: NormConvNorm(6, 9), _IMAGE),
    Whole("grouped 1x1 conv between BatchNorms", lambda: NormConvNorm(6, 4, groups=2), _IMAGE),
    Whole("1x1 convs and BatchNorms with a way around", lambda: Bottleneck(6, 3), _IMAGE),
    Whole("linear between BatchNorms", lambda: NormLinearNorm(8, 5), (7, 8)),
    Whole("1x1 conv between BatchNorms of signals", lambda: NormConvNorm1d(6, 4), (3, 6, 9)),
    Whole("BatchNorm of a mean behind InstanceNorm", lambda: NormPoolNorm(6), _IMAGE),
    Whole("keys' bias alone is trained", lambda: KeyBiasAlone(8, 2), _SEQUENCE),
    Whole("scalar alone is trained", lambda: ScalarAlone(8), _SEQUENCE),
    Whole("gain alone is trained", GainAlone, _SEQUENCE),
    Whole("temperature of equal scores", lambda: Temperature(8), _SEQUENCE),
    Whole("contrastive loss of equal views", lambda: ContrastiveLoss(8), _SEQUENCE),
    Whole("self-correlation minus one", lambda: BarlowTwins(8), _SEQUENCE),
    Whole("student and equal teacher", lambda: StudentAndTeacher(8), _SEQUENCE),
    Whole("standardised weights of a constant image", lambda: WeightStandardised(6, 4), _IMAGE),
    Whole("determinant without full rank", lambda: SpectralGap(6), (3, 5, 6)),
    Whole("finite difference", lambda: EulerStep(8), _SEQUENCE),
    Whole("length of a rotated vector", lambda: RotaryNorm(8), _SEQUENCE),
    Whole("post-norm block", lambda: PostNormBlock(8), _SEQUENCE),
    Whole("first block of LeViT", lambda: Levit(6, 8, 2), _IMAGE),
)
