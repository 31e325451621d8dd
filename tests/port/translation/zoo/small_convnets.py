"""Small convolutional networks: depthwise and grouped convolutions, squeeze-and-excite, shuffled channels."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


class SELayer(nn.Module):
    def __init__(self, channel: int, reduction: int = 2) -> None:
        super().__init__()
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(
            nn.Linear(channel, channel // reduction, bias=False),
            nn.ReLU(inplace=True),
            nn.Linear(channel // reduction, channel, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        b, c, _, _ = x.size()
        y = self.avg_pool(x).view(b, c)
        y = self.fc(y).view(b, c, 1, 1)
        return x * y.expand_as(x)


class MobileBlock(nn.Module):
    """Inverted residuals: expand, depthwise, excite, project."""

    def __init__(self, inp: int = 4, oup: int = 4, expand_ratio: int = 3, stride: int = 1) -> None:
        super().__init__()
        hidden = inp * expand_ratio
        self.use_res_connect = stride == 1 and inp == oup
        self.expand = nn.Sequential(
            nn.Conv2d(inp, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True)
        )
        self.depthwise = nn.Conv2d(hidden, hidden, (3, 5), stride, padding=(1, 2), groups=hidden)
        self.se = SELayer(hidden)
        self.project = nn.Conv2d(hidden, oup, 1)

    def forward(self, x: Tensor) -> Tensor:
        out = self.project(self.se(F.hardswish(self.depthwise(self.expand(x)))))
        return x + out if self.use_res_connect else out


class ShuffleUnit(nn.Module):
    def __init__(self, channels: int = 6, groups: int = 3) -> None:
        super().__init__()
        self.groups = groups
        self.gconv = nn.Conv2d(channels // 2, channels // 2, 3, stride=1, padding=2, dilation=2, groups=groups)
        self.bn = nn.BatchNorm2d(channels // 2, momentum=0.3, affine=False)

    def channel_shuffle(self, x: Tensor) -> Tensor:
        batchsize, num_channels, height, width = x.data.size()
        x = x.view(batchsize, self.groups, num_channels // self.groups, height, width)
        x = torch.transpose(x, 1, 2).contiguous()
        return x.view(batchsize, -1, height, width)

    def forward(self, x: Tensor) -> Tensor:
        x1, x2 = x.chunk(2, dim=1)
        out = torch.cat((x1, self.bn(self.gconv(x2))), dim=1)
        return self.channel_shuffle(out)


EXAMPLES = (
    Example(
        "mobilenet_block", MobileBlock, lambda: given(floats(3, 4, 5, 7)), "depthwise, squeeze-and-excite, expand_as"
    ),
    Example("mobilenet_stride", lambda: MobileBlock(3, 5, 2, 2), lambda: given(floats(2, 3, 7, 6)), "no residual"),
    Example("shufflenet", ShuffleUnit, lambda: given(floats(2, 6, 7, 5)), "channel shuffle, groups, dilation"),
)
