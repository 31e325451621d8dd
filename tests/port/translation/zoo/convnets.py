"""Classical convolutional networks: residual, dense, of several branches."""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


def conv3x3(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """3x3 convolution with padding"""
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None) -> None:
        super().__init__()
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x

        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)

        out = self.conv2(out)
        out = self.bn2(out)

        if self.downsample is not None:
            identity = self.downsample(x)

        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, layers: tuple[int, ...] = (1, 2), num_classes: int = 4) -> None:
        super().__init__()
        self.inplanes = 5
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=5, stride=2, padding=2, bias=False)
        self.bn1 = nn.BatchNorm2d(self.inplanes)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(5, layers[0])
        self.layer2 = self._make_layer(7, layers[1], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(7, num_classes)

        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, planes: int, blocks: int, stride: int = 1) -> nn.Sequential:
        downsample = None
        if stride != 1 or self.inplanes != planes:
            downsample = nn.Sequential(nn.Conv2d(self.inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        layers = [BasicBlock(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes
        layers.extend(BasicBlock(planes, planes) for _ in range(1, blocks))
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.fc(x)


class Inception(nn.Module):
    def __init__(self, cin: int = 3) -> None:
        super().__init__()
        self.branch1x1 = nn.Conv2d(cin, 2, kernel_size=1)
        self.branch5x5_1 = nn.Conv2d(cin, 3, kernel_size=1)
        self.branch5x5_2 = nn.Conv2d(3, 4, kernel_size=5, padding="same")
        self.branch7x7 = nn.ModuleDict(
            {"a": nn.Conv2d(cin, 2, (1, 7), padding=(0, 3)), "b": nn.Conv2d(2, 3, (7, 1), padding=(3, 0))}
        )
        self.branch_pool = nn.Conv2d(cin, 1, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        branch5x5 = self.branch5x5_2(self.branch5x5_1(x))
        branch7x7 = x
        for conv in self.branch7x7.values():
            branch7x7 = conv(branch7x7)
        branch_pool = F.avg_pool2d(x, kernel_size=3, stride=1, padding=1, count_include_pad=False)
        return [self.branch1x1(x), branch5x5, branch7x7, self.branch_pool(branch_pool)]

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(torch.cat(self._forward(x), 1), inplace=True)


class DenseLayer(nn.Sequential):
    """A Sequential with a forward of its own."""

    def __init__(self, cin: int, growth: int) -> None:
        super().__init__(
            OrderedDict(norm=nn.BatchNorm2d(cin), relu=nn.ReLU(), conv=nn.Conv2d(cin, growth, 3, padding=1, bias=False))
        )

    def forward(self, inputs: list[Tensor]) -> Tensor:
        return super().forward(torch.cat(inputs, dim=1))


class DenseNet(nn.Module):
    def __init__(self, cin: int = 3, growth: int = 2, layers: int = 3) -> None:
        super().__init__()
        for i in range(layers):
            self.add_module(f"denselayer{i + 1}", DenseLayer(cin + i * growth, growth))
        self.transition = nn.Conv2d(cin + layers * growth, 4, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for _name, layer in self.named_children():
            if isinstance(layer, DenseLayer):
                features.append(layer(features))
        return F.avg_pool2d(self.transition(torch.cat(features, 1)), 2, 2)


EXAMPLES = (
    Example(
        "resnet", ResNet, lambda: given(floats(2, 3, 17, 22)), "residual blocks, out += identity, initialised by hand"
    ),
    Example(
        "inception", Inception, lambda: given(floats(2, 3, 8, 9)), "branches, cat, ModuleDict.values, padding same"
    ),
    Example("densenet", DenseNet, lambda: given(floats(3, 3, 5, 6)), "a growing list, a subclass of Sequential"),
)
