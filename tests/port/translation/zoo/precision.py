"""Types of numbers and what gradients pass: casts, no_grad, detach, straight-through, reversed gradients."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given, integers


class Casts(nn.Module):
    """Parts in double and half precision, and integers that become floats."""

    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, count: Tensor) -> tuple[Tensor, ...]:
        exact = self.fc(x).to(torch.float64).cumsum(dim=-1)
        y = self.norm(exact.float()).type_as(x)
        per_item = y.sum(-1) / count
        halves = (count // 2).to(x.dtype) + (count % 3).float() + torch.div(count, 4, rounding_mode="floor")
        wide = torch.finfo(y.dtype).eps + y.double()
        flags = (y > 0).int().sum(dim=-1)
        return y * per_item[:, None], halves, wide.to(x), flags, (count > 2) & (flags < 4), y.long()


class StopGradient(nn.Module):
    """BYOL: a target without gradients, a student with."""

    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(dim, 6), nn.ReLU(), nn.Linear(6, 3))
        self.target = nn.Sequential(nn.Linear(dim, 6), nn.ReLU(), nn.Linear(6, 3))
        self.target.requires_grad_(False)
        self.predictor = nn.Linear(3, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        p = self.predictor(self.online(a))
        with torch.no_grad():
            t = self.target(b)
        return 2 - 2 * F.cosine_similarity(p, t.detach(), dim=-1) + p.detach().square().mean() * a.mean(dim=1)


class Straight(nn.Module):
    """Rounding and signs that let gradients through; a scale that is not learned from here."""

    def __init__(self, n_in: int = 5, n_out: int = 3, levels: int = 7) -> None:
        super().__init__()
        self.levels = levels
        self.weight = nn.Parameter(torch.randn(n_out, n_in))

    def quantize(self, x: Tensor) -> Tensor:
        x = torch.sigmoid(x)
        return x + (torch.round(x * self.levels) / self.levels - x).detach()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight.abs().mean(dim=1, keepdim=True).detach()
        binary = scale * torch.sign(self.weight)
        clipped = torch.clamp(self.weight, -1.0, 1.0)
        weight = binary.detach() - clipped.detach() + clipped
        return F.linear(self.quantize(x), weight)


class FrozenBackbone(nn.Module):
    """A backbone under no_grad in its own forward; the layers after it learn."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Hardswish())
        self.head = nn.Linear(3, 2)

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        return self.backbone(x).mean(dim=(-2, -1))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Elementwise(nn.Module):
    """Many functions of one number."""

    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.log_std = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        mean = self.fc(x)
        std = F.softplus(self.log_std) + 1e-3
        log_prob = -((x - mean) ** 2) / (2 * std**2) - std.log() - 0.5 * torch.log(torch.tensor(2 * torch.pi))
        log_prob = log_prob - torch.lgamma(k + 1.0).unsqueeze(-1) + torch.special.erf(mean) * torch.erfc(x)
        angles = torch.atan2(mean, x) + torch.hypot(mean, x).reciprocal() + torch.sinh(mean) / torch.cosh(x)
        odd = (
            torch.fmod(mean, 0.3)
            + torch.remainder(x, 0.7)
            + torch.frac(mean)
            + torch.trunc(2 * x)
            + x.ceil()
            - x.floor()
        )
        safe = torch.nan_to_num(torch.log(x), nan=-1.0, neginf=-2.0)
        extremes = torch.maximum(mean, x) * torch.minimum(mean, -x) + torch.logaddexp(mean, x)
        # no gradient passes what is cut off by safe's nan; it is detached
        return (
            log_prob + angles + odd + safe.detach() + extremes + F.hardsigmoid(mean) * F.softsign(x) + F.tanhshrink(x)
        )


EXAMPLES = (
    Example("casts", Casts, lambda: given(floats(3, 5), torch.tensor([2, 5, 3])), ".to(float64), type_as, .long()"),
    Example("stop_gradient", StopGradient, lambda: given(floats(3, 4), floats(3, 4, seed=1)), "no_grad and detach"),
    Example("straight_through", Straight, lambda: given(floats(4, 5)), "round and sign with gradients"),
    Example("frozen_backbone", FrozenBackbone, lambda: given(floats(2, 2, 5, 6)), "a method under no_grad, BatchNorm"),
    Example("elementwise", Elementwise, lambda: given(floats(3, 4), integers(6, 3)), "many functions of numbers"),
)
