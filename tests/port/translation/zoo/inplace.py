"""Writing in place: operators, methods with an underscore, slices, masks, out of views."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


class InPlaceOperators(nn.Module):
    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, dim)
        self.fc2 = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc1(x)
        y += x
        y = y.relu_() * 0.5
        y.add_(x, alpha=2)
        z = self.fc2(y)
        z -= y.mean(dim=-1, keepdim=True)
        z *= 1.5
        z /= 1.0 + y.abs()
        z.clamp_(min=-0.8).sub_(0.1)
        torch.nn.functional.dropout(z, 0.0, inplace=True)
        return z.sigmoid_()


class SliceAssignment(nn.Module):
    """Slices written one after another; a clone keeps the argument as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)  # (B, T, 3)
        out = x.clone()
        out[:, 0] = y.mean(dim=1).repeat(1, 2)
        out[..., ::2] = y
        out[:, 1:, 1] = 0.25
        out[:, -1, 3:5] += y[:, 0, :2]
        out[:, 2, -1] *= 3
        return out


class Interleave(nn.Module):
    """A buffer of zeros, filled by strided slices."""

    def __init__(self, channels: int = 2) -> None:
        super().__init__()
        self.even = nn.Conv1d(channels, 3, 3, padding=1)
        self.odd = nn.Conv1d(channels, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        B, _, T = x.shape
        out = x.new_zeros((B, 3, 2 * T))
        out[:, :, 0::2] = self.even(x)
        out[:, :, 1::2] = self.odd(x)
        return out


class MaskedAssignment(nn.Module):
    """Boolean masks on the left: of the whole shape, of the first axes, and with a tensor that is broadcast."""

    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.fill = nn.Parameter(torch.randn(dim))

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        x[x < -0.3] = 0  # clipped from below
        quiet = x.abs().sum(-1) < 1.0
        x[quiet] = self.fill
        loud = x.amax(dim=-1) > 0.9
        x[loud, 1:] = 0.7
        x[loud & ~quiet] *= -1.5
        return x.masked_fill_(x > 2, 2.0)


class Views(nn.Module):
    """Views written to: what they show is written to as well."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        left, right = x[..., :3], x[..., 3:]
        left.mul_(torch.sigmoid(right))
        rows = x.transpose(0, 1)
        rows[0].add_(1.0)
        flat = x.view(x.shape[0], -1)
        flat[:, ::5] = -flat[:, ::5]
        x[:, 1].zero_()
        x.select(1, 2).fill_(0.5)
        x.narrow(2, 1, 2).copy_(torch.ones(2))
        return x


class CoordinateGrid(nn.Module):
    """CoordConv: a grid made in forward, channels added; what lies outside a circle is set."""

    def __init__(self, cin: int = 2, cout: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(cin + 3, cout, 3)

    def forward(self, x: Tensor) -> Tensor:
        b, _, h, w = x.shape
        ys = torch.linspace(-1, 1, h, device=x.device, dtype=x.dtype)
        xs = (torch.arange(w, device=x.device) + 0.5) / w * 2 - 1
        yy, xx = torch.meshgrid(ys, xs, indexing="ij")
        radius = (yy.square() + xx**2).sqrt()
        radius[radius > 1] = 1.0
        grid = torch.stack([yy, xx, radius]).unsqueeze(0).expand(b, -1, -1, -1)
        return F.relu(self.conv(torch.cat([x, grid], dim=1)), inplace=True)


EXAMPLES = (
    Example("in_place_operators", InPlaceOperators, lambda: given(floats(3, 5)), "+=, -=, *=, /=, relu_, clamp_"),
    Example("slice_assignment", SliceAssignment, lambda: given(floats(2, 4, 6)), "assignment to slices, and += there"),
    Example("interleave", Interleave, lambda: given(floats(3, 2, 5)), "strided slices of new zeros are filled"),
    Example("masked_assignment", MaskedAssignment, lambda: given(floats(3, 5, 4)), "x[mask] = number or parameter"),
    Example(
        "views_written", Views, lambda: given(floats(2, 4, 6)), "in-place writes through slices, transpose and view"
    ),
    Example(
        "coordinate_grid", CoordinateGrid, lambda: given(floats(2, 2, 5, 7)), "meshgrid, linspace, arange in forward"
    ),
)
