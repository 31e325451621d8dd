"""Weights that forward computes: normalised, standardised, equalised; layers by function; subclasses of layers."""

from __future__ import annotations

import math
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize
from torch import Tensor
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

from .example import Example, floats, given


class StdConv2d(nn.Conv2d):
    """Weight standardisation, as in Big Transfer: a subclass with a forward of its own."""

    def forward(self, x: Tensor) -> Tensor:
        w = self.weight
        v, m = torch.var_mean(w, dim=[1, 2, 3], keepdim=True, unbiased=False)
        w = (w - m) / torch.sqrt(v + 1e-10)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


class ScaledStdConv1d(nn.Conv1d):
    """NFNet's: a gain, and the fan-in of the weight."""

    def __init__(self, cin: int, cout: int, kernel_size: int, gamma: float = 1.7, eps: float = 1e-6) -> None:
        super().__init__(cin, cout, kernel_size, padding="same", padding_mode="reflect")
        self.gain = nn.Parameter(torch.ones(cout, 1, 1))
        self.scale = gamma * self.weight[0].numel() ** -0.5
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        weight = F.batch_norm(
            self.weight.reshape(1, self.out_channels, -1),
            None,
            None,
            weight=(self.gain * self.scale).view(-1),
            training=True,
            momentum=0.0,
            eps=self.eps,
        ).reshape_as(self.weight)
        return F.conv1d(F.pad(x, (1, 1), mode="reflect"), weight, self.bias)


class BigTransfer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.root = StdConv2d(3, 4, kernel_size=5, stride=2, padding=(2, 1), bias=False)
        self.gn = nn.GroupNorm(2, 4)
        self.conv = StdConv2d(4, 6, 3, padding=2, dilation=2, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.relu(self.gn(self.root(x))))


class EqualLinear(nn.Linear):
    """StyleGAN's equalised learning rate."""

    def __init__(self, in_dim: int, out_dim: int, lr_mul: float = 0.01) -> None:
        super().__init__(in_dim, out_dim)
        self.scale = (1 / math.sqrt(in_dim)) * lr_mul
        self.lr_mul = lr_mul

    def forward(self, input: Tensor) -> Tensor:
        out = F.linear(input, self.weight * self.scale, bias=self.bias * self.lr_mul)
        return F.leaky_relu(out, 0.2) * 2**0.5


class EqualConv2d(nn.Module):
    """The same of a convolution, with parameters of its own."""

    def __init__(self, in_channel: int, out_channel: int, kernel_size: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_channel, in_channel, kernel_size, kernel_size))
        self.scale = 1 / math.sqrt(in_channel * kernel_size**2)
        self.stride = stride
        self.padding = padding
        self.bias = nn.Parameter(torch.zeros(out_channel))

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, self.weight * self.scale, bias=self.bias, stride=self.stride, padding=self.padding)


class Mapping(nn.Module):
    """StyleGAN's mapping, and one convolution with modulated weights: a group for each sample."""

    def __init__(self, style: int = 4, cin: int = 3, cout: int = 2) -> None:
        super().__init__()
        self.mapping = nn.Sequential(EqualLinear(style, 5), EqualLinear(5, style, lr_mul=0.5))
        self.from_rgb = EqualConv2d(2, cin, 1)
        self.modulation = EqualLinear(style, cin, lr_mul=1.0)
        self.weight = nn.Parameter(torch.randn(1, cout, cin, 3, 3))
        self.noise_strength = nn.Parameter(torch.zeros([]))

    def forward(self, image: Tensor, z: Tensor, noise: Tensor) -> Tensor:
        z = z * torch.rsqrt(torch.mean(z**2, dim=1, keepdim=True) + 1e-8)
        s = self.modulation(self.mapping(z))
        x = self.from_rgb(image)
        batch, in_channel, height, width = x.shape
        # modulate, demodulate
        weight = self.weight * s.view(batch, 1, in_channel, 1, 1)
        demod = torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8)
        weight = weight * demod.view(batch, -1, 1, 1, 1)
        # one convolution of batch groups
        x = x.reshape(1, batch * in_channel, height, width)
        weight = weight.view(-1, in_channel, 3, 3)
        out = F.conv2d(x, weight, padding=1, groups=batch).view(batch, -1, height, width)
        return out.add_(noise * self.noise_strength)


class OwnParameters(nn.Module):
    """Functions for all of it, with parameters that are this module's own."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.empty(4, 2, 3))
        self.up = nn.Parameter(torch.empty(4, 3, 2))
        self.w = nn.Parameter(torch.empty(5, 3))
        self.b = nn.Parameter(torch.zeros(5))
        self.gain, self.shift = nn.Parameter(torch.ones(5)), nn.Parameter(torch.zeros(5))
        self.table = nn.Parameter(torch.randn(6, 5))
        for p in (self.filters, self.up, self.w):
            nn.init.kaiming_uniform_(p, a=math.sqrt(5))
        self.register_buffer("running_mean", torch.zeros(4))
        self.register_buffer("running_var", torch.ones(4))

    def forward(self, x: Tensor, token: Tensor) -> Tensor:
        x = F.conv1d(x, self.filters, stride=2)
        x = F.batch_norm(x, self.running_mean, self.running_var, training=self.training, momentum=0.2)
        x = F.conv_transpose1d(x, self.up, stride=2)
        x = F.linear(x.mean(dim=-1), self.w, self.b)
        x = F.layer_norm(x, (5,), weight=self.gain, bias=self.shift, eps=1e-3)
        return F.group_norm(x + F.embedding(token, self.table), 1)


class Symmetric(nn.Module):
    def forward(self, X: Tensor) -> Tensor:
        return X.triu() + X.triu(1).transpose(-1, -2)


class Parametrized(nn.Module):
    """torch's parametrizations, and one that is written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.normed = weight_norm(nn.Linear(4, 5))
        self.conv = weight_norm(nn.Conv1d(5, 3, 2, bias=False), dim=1)
        self.square = nn.Linear(3, 3)
        parametrize.register_parametrization(self.square, "weight", Symmetric())
        self.turned = orthogonal(nn.Linear(3, 3, bias=False), orthogonal_map="cayley")

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(F.relu(self.normed(x)).mT)
        return self.turned(self.square(y.mT))


class Discriminator(nn.Module):
    """A projection discriminator: weights divided by their largest singular value, in both of torch's ways."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.utils.spectral_norm(nn.Conv2d(3, 4, 3, padding=1))
        self.conv2 = spectral_norm(nn.Conv2d(4, 5, 4, stride=2, padding=1))
        self.fc = nn.utils.spectral_norm(nn.Linear(5, 1), n_power_iterations=2)
        self.embed = nn.utils.spectral_norm(nn.Embedding(classes, 5))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = F.relu(self.conv2(F.leaky_relu(self.conv1(x), 0.1))).sum(dim=(2, 3))
        return self.fc(h) + (self.embed(y) * h).sum(1, keepdim=True)


class GatedStack(nn.Module):
    """Dilated convolutions with gates; the older weight_norm, whose weights are tensors that torch does not copy."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.gates = nn.ModuleList(
            [nn.Conv1d(channels, 2 * channels, 3, dilation=2**i, padding=2**i) for i in range(3)]
        )
        self.mixes = nn.ModuleList([nn.Conv1d(channels, channels, 1) for _ in range(3)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it says that it is old
            for conv in (*self.gates, *self.mixes):
                nn.utils.weight_norm(conv)

    def forward(self, x: Tensor) -> Tensor:
        skips = 0
        for gate, mix in zip(self.gates, self.mixes, strict=True):
            a, b = gate(x).chunk(2, dim=1)
            z = mix(torch.tanh(a) * torch.sigmoid(b))
            skips = skips + z
            x = (x + z) * 0.5**0.5
        return skips


class LowRank(nn.Module):
    """LoRA beside a frozen layer."""

    def __init__(self, n_in: int = 5, n_out: int = 4, r: int = 2, alpha: float = 3.0) -> None:
        super().__init__()
        self.base = nn.Linear(n_in, n_out)
        self.base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(r, n_in))
        self.lora_B = nn.Parameter(torch.zeros(n_out, r))
        self.scaling = alpha / r

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling


EXAMPLES = (
    Example("standardised_conv", BigTransfer, lambda: given(floats(2, 3, 9, 11)), "a subclass of Conv2d, var_mean"),
    Example("scaled_conv", lambda: ScaledStdConv1d(2, 3, 3), lambda: given(floats(3, 2, 6)), "a subclass of Conv1d"),
    Example(
        "style_mapping",
        Mapping,
        lambda: given(floats(2, 2, 5, 4), floats(2, 4, seed=1), noise=floats(2, 1, 5, 4, seed=2)),
        "equalised layers, a convolution with a group for each sample",
    ),
    Example("own_parameters", OwnParameters, lambda: given(floats(3, 2, 8), torch.tensor([5, 0, 2])), "layers by F"),
    Example("parametrized", Parametrized, lambda: given(floats(2, 6, 4)), "weight_norm, orthogonal, one by hand"),
    Example(
        "discriminator",
        Discriminator,
        lambda: given(floats(4, 3, 8, 6), torch.tensor([0, 2, 1, 2])),
        "spectral_norm, the older and the newer, u and v in training",
    ),
    Example("gated_stack", GatedStack, lambda: given(floats(2, 4, 9)), "the older weight_norm"),
    Example("low_rank", LowRank, lambda: given(floats(3, 5)), "frozen parameters, .T"),
)
