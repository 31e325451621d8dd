"""Other resolutions: interpolate in every mode, grid_sample in every mode, pixel shuffle, unfold and fold."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


class Pyramid(nn.Module):
    """A feature pyramid: coarse maps come up to the size of the finer ones, each in a mode of its own."""

    def __init__(self, cin: int = 2, width: int = 3) -> None:
        super().__init__()
        self.laterals = nn.ModuleList([nn.Conv2d(cin, width, 1) for _ in range(4)])
        self.modes = ("nearest", "nearest-exact", "bilinear", "bicubic")

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        results = [self.laterals[0](maps[0])]
        for i, x in enumerate(maps[1:], start=1):
            mode = self.modes[i % 4]
            align = {"align_corners": i % 2 == 1} if mode in ("bilinear", "bicubic") else {}
            top = F.interpolate(results[-1], size=x.shape[-2:], mode=mode, **align)
            results.append(self.laterals[i](x) + top)
        return results


class ByFactor(nn.Module):
    """scale_factor: whole and broken, up and down, one for each axis, antialiased."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(7, 2, 1)
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[2:]
        variants = [
            F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
            F.interpolate(x, scale_factor=(1.5, 0.7), mode="bilinear", recompute_scale_factor=True),
            F.interpolate(x, scale_factor=0.5, mode="area"),
            F.interpolate(x, scale_factor=1.7, mode="bicubic", align_corners=True),
            F.interpolate(x, scale_factor=(0.6, 2.0), mode="nearest"),
            F.interpolate(x, size=(h // 2, w + 3), mode="bilinear", antialias=True),
            self.up(x),
        ]
        return self.mix(torch.cat([F.interpolate(v, size=(h, w), mode="nearest-exact") for v in variants], dim=1))


class OverTimeAndSpace(nn.Module):
    """The modes of one axis and of three."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(2, 3, 1)
        self.conv3 = nn.Conv3d(1, 2, 1)

    def forward(self, signal: Tensor, volume: Tensor) -> tuple[Tensor, ...]:
        signal, volume = self.conv1(signal), self.conv3(volume)
        return (
            F.interpolate(signal, size=7, mode="linear", align_corners=True),
            F.interpolate(signal, scale_factor=2.5, mode="linear"),
            F.interpolate(signal, size=4, mode="area"),
            F.interpolate(signal, scale_factor=3, mode="nearest-exact"),
            F.interpolate(volume, size=(3, 5, 4), mode="trilinear", align_corners=False),
            F.interpolate(volume, scale_factor=(2, 1, 0.5), mode="trilinear", align_corners=True),
            F.interpolate(volume, size=(2, 4, 3), mode="nearest"),
            F.interpolate(volume, size=2, mode="area"),
        )


class SpatialTransformer(nn.Module):
    """A localisation network says how the image is moved; the tutorial's."""

    def __init__(self, align_corners: bool = False) -> None:
        super().__init__()
        self.align_corners = align_corners
        self.localization = nn.Sequential(nn.Conv2d(1, 3, kernel_size=3), nn.MaxPool2d(2, stride=2), nn.ReLU(True))
        # Regressor for the 3 * 2 affine matrix
        self.fc_loc = nn.Linear(3 * 3 * 2, 3 * 2)
        # Initialize the weights/bias with identity transformation
        self.fc_loc.weight.data.zero_()
        self.fc_loc.bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def forward(self, x: Tensor) -> Tensor:
        xs = self.localization(x)
        xs = xs.view(-1, 3 * 3 * 2)
        theta = self.fc_loc(xs)
        theta = theta.view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=self.align_corners)
        return F.grid_sample(x, grid, align_corners=self.align_corners)


class Warp(nn.Module):
    """An image warped by a flow that is predicted, in every mode and padding."""

    def __init__(self, channels: int = 2) -> None:
        super().__init__()
        self.flow = nn.Conv2d(channels, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        _n, _, h, w = x.shape
        flow = self.flow(x).permute(0, 2, 3, 1)
        base = torch.stack(torch.meshgrid(torch.linspace(-1, 1, w), torch.linspace(-1, 1, h), indexing="xy"), dim=-1)
        grid = base + 0.4 * flow
        warped = []
        for mode in ("bilinear", "nearest", "bicubic"):
            for padding_mode in ("zeros", "border", "reflection"):
                corners = padding_mode == "border" or mode == "bicubic"
                warped.append(F.grid_sample(x, grid, mode, padding_mode, align_corners=corners))
        return torch.stack(warped, 1)


class VolumeLookup(nn.Module):
    """Features of points read out of a volume, as in implicit surfaces."""

    def __init__(self) -> None:
        super().__init__()
        self.volume = nn.Parameter(torch.randn(1, 3, 4, 5, 2))
        self.head = nn.Linear(3, 1)

    def forward(self, points: Tensor) -> Tensor:
        grid = torch.tanh(points)[:, :, None, None, :]  # (B, N, 1, 1, 3)
        volume = self.volume.expand(points.shape[0], -1, -1, -1, -1)
        features = F.grid_sample(volume, grid, padding_mode="border", align_corners=True)
        return self.head(features.squeeze(-1).squeeze(-1).mT)


class SubPixel(nn.Module):
    def __init__(self, r: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 2 * r * r, 3, padding=1)
        self.shuffle = nn.PixelShuffle(r)
        self.last = nn.Conv2d(2 * 4, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        large = F.pixel_shuffle(x, 2).clamp(0.0, 1.0)
        y = self.shuffle(self.conv(x))
        h, w = (size // 2 * 2 for size in y.shape[-2:])
        return large, self.last(F.pixel_unshuffle(y[..., :h, :w], 2))


class PatchMixer(nn.Module):
    """Overlapping patches are unfolded, mixed, folded, and divided by how often each place was seen."""

    def __init__(self, channels: int = 2, kernel: tuple[int, int] = (3, 2)) -> None:
        super().__init__()
        self.kernel = kernel
        width = channels * kernel[0] * kernel[1]
        self.fc = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        H, W = x.shape[-2:]
        params = {"kernel_size": self.kernel, "padding": 1, "stride": 2}
        cols = F.unfold(x, **params)
        mixed = self.fc(cols.transpose(1, 2)).transpose(1, 2)
        folded = F.fold(mixed, (H, W), **params)
        seen = F.fold(F.unfold(torch.ones_like(x), **params), output_size=(H, W), **params)
        # windows without padding, by Tensor.unfold
        windows = x.unfold(2, 3, 2).unfold(3, 2, 1)
        return folded / seen.clamp(min=1) + windows.mean(dim=(-2, -1)).amax(dim=(2, 3), keepdim=True)


def _maps() -> list[Tensor]:
    return [floats(2, 2, *size, seed=i) for i, size in enumerate([(3, 2), (5, 4), (8, 9), (11, 14)])]


EXAMPLES = (
    Example("pyramid", Pyramid, lambda: given(_maps()), "interpolate to a size, in four modes; a list goes in"),
    Example("scale_factors", ByFactor, lambda: given(floats(2, 1, 6, 9)), "interpolate by factors, antialias"),
    Example(
        "resample_1d_3d",
        OverTimeAndSpace,
        lambda: given(floats(3, 2, 5), floats(3, 1, 2, 3, 6, seed=1)),
        "linear, trilinear, area and nearest over one and three axes",
    ),
    Example("spatial_transformer", SpatialTransformer, lambda: given(floats(3, 1, 8, 7)), "affine_grid, grid_sample"),
    Example("warp", Warp, lambda: given(floats(2, 2, 5, 6)), "grid_sample in all modes and paddings"),
    Example("volume_lookup", VolumeLookup, lambda: given(floats(2, 7, 3)), "grid_sample of a volume, a parameter"),
    Example("sub_pixel", SubPixel, lambda: given(floats(2, 4, 3, 5)), "pixel_shuffle and pixel_unshuffle"),
    Example("patch_mixer", PatchMixer, lambda: given(floats(2, 2, 7, 6)), "F.unfold, F.fold, Tensor.unfold"),
)
