"""Newer convolutional networks: ConvNeXt, causal dilated stacks over time, video, a decoder of sound."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.parametrizations import weight_norm

from .example import Example, floats, given


class LayerNorm(nn.Module):
    """LayerNorm that supports two data formats: channels_last (default) or channels_first."""

    def __init__(self, normalized_shape: int, eps: float = 1e-6, data_format: str = "channels_last") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(normalized_shape))
        self.bias = nn.Parameter(torch.zeros(normalized_shape))
        self.eps = eps
        self.data_format = data_format
        if self.data_format not in ["channels_last", "channels_first"]:
            raise NotImplementedError
        self.normalized_shape = (normalized_shape,)

    def forward(self, x: Tensor) -> Tensor:
        if self.data_format == "channels_last":
            return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class GRN(nn.Module):
    """Global response normalisation, of ConvNeXt V2."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, 1, dim))
        self.beta = nn.Parameter(torch.zeros(1, 1, 1, dim))

    def forward(self, x: Tensor) -> Tensor:
        Gx = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        Nx = Gx / (Gx.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * Nx) + self.beta + x


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim: int, layer_scale_init_value: float = 1e-6) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)  # depthwise conv
        self.norm = LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)  # pointwise/1x1 convs, implemented with linear layers
        self.act = nn.GELU(approximate="tanh")
        self.grn = GRN(4 * dim) if layer_scale_init_value == 0 else None
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = (
            nn.Parameter(layer_scale_init_value * torch.ones(dim), requires_grad=True)
            if layer_scale_init_value > 0
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        input = x
        x = self.dwconv(x)
        x = x.permute(0, 2, 3, 1)  # (N, C, H, W) -> (N, H, W, C)
        x = self.norm(x)
        x = self.pwconv1(x)
        x = self.act(x)
        if self.grn is not None:
            x = self.grn(x)
        x = self.pwconv2(x)
        if self.gamma is not None:
            x = self.gamma * x
        x = x.permute(0, 3, 1, 2)  # (N, H, W, C) -> (N, C, H, W)
        return input + x


class ConvNeXt(nn.Module):
    def __init__(self, dims: tuple[int, ...] = (4, 6), scale: float = 1e-6, classes: int = 3) -> None:
        super().__init__()
        self.downsample_layers = nn.ModuleList()  # stem and 1 intermediate downsampling conv layer
        stem = nn.Sequential(nn.Conv2d(3, dims[0], 2, 2), LayerNorm(dims[0], data_format="channels_first"))
        self.downsample_layers.append(stem)
        for i in range(len(dims) - 1):
            self.downsample_layers.append(
                nn.Sequential(
                    LayerNorm(dims[i], eps=1e-5, data_format="channels_first"),
                    nn.Conv2d(dims[i], dims[i + 1], kernel_size=2, stride=2),
                )
            )
        self.stages = nn.ModuleList(ConvNeXtBlock(dim, scale) for dim in dims)
        self.norm = nn.LayerNorm(dims[-1], eps=1e-6)
        self.head = nn.Linear(dims[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(len(self.stages)):
            x = self.downsample_layers[i](x)
            x = self.stages[i](x)
        x = self.norm(x.mean([-2, -1]))  # global average pooling, (N, C, H, W) -> (N, C)
        return self.head(x)


class Chomp1d(nn.Module):
    def __init__(self, chomp_size: int) -> None:
        super().__init__()
        self.chomp_size = chomp_size

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, : -self.chomp_size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, n_inputs: int, n_outputs: int, kernel_size: int, dilation: int, dropout: float = 0.2) -> None:
        super().__init__()
        padding = (kernel_size - 1) * dilation
        self.conv1 = weight_norm(nn.Conv1d(n_inputs, n_outputs, kernel_size, padding=padding, dilation=dilation))
        self.conv2 = nn.Conv1d(n_outputs, n_outputs, kernel_size, padding=padding, dilation=dilation)
        self.net = nn.Sequential(
            self.conv1, Chomp1d(padding), nn.ReLU(), nn.Dropout(dropout), self.conv2, Chomp1d(padding), nn.ReLU()
        )
        self.downsample = nn.Conv1d(n_inputs, n_outputs, 1) if n_inputs != n_outputs else None
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out = self.net(x)
        res = x if self.downsample is None else self.downsample(x)
        return self.relu(out + res)


class TCN(nn.Module):
    def __init__(self, num_inputs: int = 3, num_channels: tuple[int, ...] = (4, 4, 5)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for i, out_channels in enumerate(num_channels):
            in_channels = num_inputs if i == 0 else num_channels[i - 1]
            layers += [TemporalBlock(in_channels, out_channels, kernel_size=2 + i % 2, dilation=2**i)]
        self.network = nn.Sequential(*layers)
        self.linear = nn.Linear(num_channels[-1], 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs have to have dimension (N, L_in, C_in)"""
        y1 = self.network(inputs.transpose(1, 2))
        return self.linear(y1[:, :, -1])


class WaveNetLayer(nn.Module):
    """Padded on the left by F.pad; a gate, a residual and a skip."""

    def __init__(self, residual: int = 4, skip: int = 3, dilation: int = 3) -> None:
        super().__init__()
        self.dilation = dilation
        self.dilated = nn.Conv1d(residual, 2 * residual, 2, dilation=dilation)
        self.out = nn.Conv1d(residual, residual + skip, 1)
        self.sizes = [residual, skip]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        filtered, gate = torch.chunk(self.dilated(F.pad(x, (self.dilation, 0))), 2, dim=1)
        res, skip = self.out(torch.tanh(filtered) * gate.sigmoid()).split(self.sizes, dim=1)
        return (x + res) * 0.5**0.5, skip


class VideoNet(nn.Module):
    """R(2+1)D: a convolution over space, one over time."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.spatial = nn.Conv3d(2, 5, kernel_size=(1, 3, 3), stride=(1, 2, 2), padding=(0, 1, 1), bias=False)
        self.bn = nn.BatchNorm3d(5)
        self.temporal = nn.Conv3d(5, 3, (3, 1, 1), padding=(1, 0, 0), padding_mode="replicate")
        self.pool = nn.MaxPool3d((1, 2, 2), stride=(1, 2, 1))
        self.fc = nn.Linear(3, classes)

    def forward(self, clip: Tensor) -> Tensor:
        x = self.pool(F.relu_(self.bn(self.spatial(clip))))
        x = F.selu(self.temporal(x))
        x = F.adaptive_avg_pool3d(x, (2, 1, 1))
        return self.fc(x.flatten(3).squeeze(-1).permute(0, 2, 1))


EXAMPLES = (
    Example("convnext", ConvNeXt, lambda: given(floats(2, 3, 9, 12)), "permutes, layer scale, LayerNorm by axis"),
    Example("convnext_v2", lambda: ConvNeXt((5,), 0), lambda: given(floats(3, 3, 6, 8)), "norms over axes, no scale"),
    Example("tcn", TCN, lambda: given(floats(3, 9, 3)), "dilated causal stack, chomp, weight_norm, modules held twice"),
    Example("wavenet_layer", WaveNetLayer, lambda: given(floats(2, 4, 8)), "left padding, gates, two outputs"),
    Example("video", VideoNet, lambda: given(floats(2, 2, 4, 7, 9)), "Conv3d, replicate padding, adaptive pooling"),
)
