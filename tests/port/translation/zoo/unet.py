"""U-Nets: transposed convolutions or bilinear upsampling, skips by concatenation, odd sizes padded."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


class DoubleConv(nn.Module):
    """(convolution => [BN] => ReLU) * 2"""

    def __init__(self, in_channels: int, out_channels: int, mid_channels: int | None = None) -> None:
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.double_conv(x)


class Down(nn.Module):
    """Downscaling with maxpool then double conv"""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(in_channels, out_channels))

    def forward(self, x: Tensor) -> Tensor:
        return self.maxpool_conv(x)


class Up(nn.Module):
    """Upscaling then double conv"""

    def __init__(self, in_channels: int, out_channels: int, bilinear: bool) -> None:
        super().__init__()
        # if bilinear, use the normal convolutions to reduce the number of channels
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)
        else:
            self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        x1 = self.up(x1)
        # input is CHW
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]

        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        x = torch.cat([x2, x1], dim=1)
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, n_channels: int, n_classes: int, width: int, bilinear: bool = False) -> None:
        super().__init__()
        factor = 2 if bilinear else 1
        self.inc = DoubleConv(n_channels, width)
        self.down1 = Down(width, 2 * width)
        self.down2 = Down(2 * width, 4 * width // factor)
        self.up1 = Up(4 * width, 2 * width // factor, bilinear)
        self.up2 = Up(2 * width, width, bilinear)
        self.outc = nn.Conv2d(width, n_classes, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.up1(x3, x2)
        x = self.up2(x, x1)
        return self.outc(x)


def center_crop(features: Tensor, like: Tensor) -> Tensor:
    """Cuts the middle out of features, as large as like is."""
    h, w = like.shape[-2:]
    top = (features.shape[-2] - h) // 2
    left = (features.shape[-1] - w) // 2
    return features[..., top : top + h, left : left + w]


class ValidUNet(nn.Module):
    """The paper's: convolutions without padding, crops; levels in lists; GroupNorm and a learned upsampling."""

    def __init__(self, widths: tuple[int, ...] = (3, 4, 6)) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        self.encoder = nn.ModuleList(nn.Conv2d(i, o, 3) for i, o in pairs)
        self.norms = nn.ModuleList(nn.GroupNorm(2, o) for _, o in pairs)
        self.bottom = nn.Conv2d(widths[-1], widths[-1], (3, 1), groups=2)
        self.ups = nn.ModuleList(
            nn.ConvTranspose2d(o, o, 3, stride=2, padding=1, output_padding=(0, 1)) for _, o in reversed(pairs)
        )
        self.decoder = nn.ModuleList(nn.Conv2d(2 * o, i, 1, bias=False) for i, o in reversed(pairs))

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for conv, norm in zip(self.encoder, self.norms, strict=True):
            x = F.leaky_relu(norm(conv(x)), negative_slope=0.2)
            skips.append(x)
            x = F.max_pool2d(x, 2, ceil_mode=True)

        x = F.elu_(self.bottom(x))

        for up, conv in zip(self.ups, self.decoder, strict=True):
            x = up(x)
            skip = center_crop(skips.pop(), x)
            x = conv(torch.cat((skip, x[:, :, : skip.shape[2], : skip.shape[3]]), 1))
        return x.tanh_()


class SegNet(nn.Module):
    """What goes up again is told how large it was."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.down = nn.Conv2d(6, 4, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1)
        self.unpool = nn.MaxUnpool2d(2)
        self.out = nn.ConvTranspose2d(12, classes, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        skip = F.relu(self.conv(x))
        pooled, indices = self.pool(skip)
        y = self.up(F.relu(self.down(pooled)), output_size=pooled.size())
        y = self.unpool(y, indices, skip.shape[-2:])
        z = self.unpool(indices=indices, input=pooled, output_size=skip.size())
        return self.out(torch.cat([y, skip], dim=1)), z


EXAMPLES = (
    Example("unet", lambda: UNet(2, 3, 4), lambda: given(floats(2, 2, 9, 14)), "ConvTranspose2d, skips, odd sizes"),
    Example(
        "unet_bilinear", lambda: UNet(1, 2, 4, bilinear=True), lambda: given(floats(3, 1, 11, 8)), "bilinear upsampling"
    ),
    Example("unet_cropped", ValidUNet, lambda: given(floats(2, 3, 19, 23)), "crops, ceil_mode, lists, output_padding"),
    Example("segnet", SegNet, lambda: given(floats(2, 3, 9, 14)), "max_unpool, output_size at the call"),
)
