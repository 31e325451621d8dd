"""Networks that others steer: FiLM, conditional norms, hypernetworks, mixtures of experts, adaptive layers."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given, integers


class FiLM(nn.Module):
    def __init__(self, n_cond: int, channels: int) -> None:
        super().__init__()
        self.to_scale_shift = nn.Sequential(nn.SiLU(), nn.Linear(n_cond, channels * 2))

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        scale, shift = self.to_scale_shift(cond)[..., None, None].chunk(2, dim=1)
        return x * (scale + 1) + shift


class ResnetBlock(nn.Module):
    """Of a diffusion model: the time steers the features."""

    def __init__(self, dim: int = 4, dim_out: int = 6, time_emb_dim: int = 5, groups: int = 2) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, dim)
        self.conv1 = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.film = FiLM(time_emb_dim, dim_out)
        self.norm2 = nn.GroupNorm(groups, dim_out, affine=False)
        self.conv2 = nn.Conv2d(dim_out, dim_out, 3, padding=1)
        self.res_conv = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x: Tensor, time_emb: Tensor) -> Tensor:
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.film(self.norm2(h), time_emb)
        h = self.conv2(F.silu(h))
        return h + self.res_conv(x)


class ConditionalBatchNorm2d(nn.Module):
    def __init__(self, num_features: int = 3, num_classes: int = 5) -> None:
        super().__init__()
        self.num_features = num_features
        self.bn = nn.BatchNorm2d(num_features, affine=False)
        self.embed = nn.Embedding(num_classes, num_features * 2)
        self.embed.weight.data[:, :num_features].normal_(1, 0.02)  # Initialise scale at N(1, 0.02)
        self.embed.weight.data[:, num_features:].zero_()  # Initialise bias at 0

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        out = self.bn(x)
        gamma, beta = self.embed(y).chunk(2, 1)
        return gamma.view(-1, self.num_features, 1, 1) * out + beta.view(-1, self.num_features, 1, 1)


class AdaIN(nn.Module):
    """Content takes on the mean and the deviation of a style."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 1)
        self.eps = 1e-5

    def calc_mean_std(self, feat: Tensor) -> tuple[Tensor, Tensor]:
        N, C = feat.size()[:2]
        feat_var = feat.view(N, C, -1).var(dim=2) + self.eps
        feat_std = feat_var.sqrt().view(N, C, 1, 1)
        feat_mean = feat.view(N, C, -1).mean(dim=2).view(N, C, 1, 1)
        return feat_mean, feat_std

    def forward(self, content: Tensor, style: Tensor) -> Tensor:
        content = self.conv(content)
        size = content.size()
        style_mean, style_std = self.calc_mean_std(style)
        content_mean, content_std = self.calc_mean_std(content)
        normalized_feat = (content - content_mean.expand(size)) / content_std.expand(size)
        return normalized_feat * style_std.expand(size) + style_mean.expand(size)


class HyperNetwork(nn.Module):
    """The weights of a convolution and of a linear layer are the output of a network."""

    def __init__(self, z_dim: int = 4, cin: int = 2, cout: int = 3, k: int = 3, n_out: int = 2) -> None:
        super().__init__()
        self.shapes = [(cout, cin, k, k), (cout,), (n_out, cout)]
        self.z = nn.Parameter(torch.randn(z_dim))
        total = sum(torch.Size(s).numel() for s in self.shapes)
        self.hyper = nn.Sequential(nn.Linear(z_dim, 6), nn.Tanh(), nn.Linear(6, total))

    def make_weights(self) -> list[Tensor]:
        flat = self.hyper(self.z)
        weights, start = [], 0
        for shape in self.shapes:
            n = torch.Size(shape).numel()
            weights.append(flat[start : start + n].view(shape))
            start += n
        return weights

    def forward(self, x: Tensor) -> Tensor:
        kernel, bias, out = self.make_weights()
        h = F.relu(F.conv2d(x, kernel, bias, stride=(1, 2)))
        return F.linear(h.mean((2, 3)), out)


class PerSampleWeights(nn.Module):
    """A linear layer for each sample, by baddbmm."""

    def __init__(self, cond: int = 3, n_in: int = 4, n_out: int = 2) -> None:
        super().__init__()
        self.n_in, self.n_out = n_in, n_out
        self.weight = nn.Linear(cond, n_in * n_out)
        self.bias = nn.Linear(cond, n_out)

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        w = self.weight(cond).view(-1, self.n_in, self.n_out)
        return torch.baddbmm(self.bias(cond).unsqueeze(1), x, w, beta=0.5)


class Expert(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class MixtureOfExperts(nn.Module):
    """Every expert sees every token; a gate keeps the best k. With a loss that balances them."""

    def __init__(self, dim: int = 5, experts: int = 4, k: int = 2) -> None:
        super().__init__()
        self.num_experts, self.k = experts, k
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList([Expert(dim, 6 + i) for i in range(experts)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.gate(x)
        _, top_k_indices = torch.topk(logits, self.k, dim=-1)
        mask = torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, top_k_indices, True)
        gates = F.softmax(logits.masked_fill(~mask, float("-inf")), dim=-1)

        final_output = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            final_output += gates[..., i, None] * expert(x)

        # load balancing, of the Switch transformer
        density = mask.float().mean(dim=(0, 1))
        density_proxy = logits.softmax(-1).mean(dim=(0, 1))
        return final_output, (density * density_proxy).sum() * self.num_experts


class StackedExperts(nn.Module):
    """The experts' weights in one parameter; the gate picks one of them by one_hot."""

    def __init__(self, dim: int = 4, experts: int = 3, hidden: int = 5) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.w1 = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        probs = self.gate(x).softmax(dim=-1)
        value, index = probs.max(dim=-1, keepdim=True)
        dispatch = F.one_hot(index.squeeze(-1), probs.size(-1)).to(x.dtype)
        hidden = torch.einsum("btd,edh->bteh", x, self.w1).relu()
        out = torch.einsum("bteh,ehd->bted", hidden, self.w2)
        return (out * (dispatch * value).unsqueeze(-1)).sum(2)


EXAMPLES = (
    Example("film", ResnetBlock, lambda: given(floats(2, 4, 5, 6), time_emb=floats(2, 5, seed=1)), "scale and shift"),
    Example(
        "conditional_batch_norm",
        ConditionalBatchNorm2d,
        lambda: given(floats(3, 3, 4, 5), integers(5, 3)),
        "a gain and a shift for each class",
    ),
    Example(
        "ada_in", AdaIN, lambda: given(floats(2, 3, 4, 5), floats(2, 3, 6, 3, seed=1)), "unbiased variance, expand"
    ),
    Example("hyper_network", HyperNetwork, lambda: given(floats(3, 2, 5, 8)), "weights are cut out of an output"),
    Example("weights_by_sample", PerSampleWeights, lambda: given(floats(3, 5, 4), floats(3, 3, seed=1)), "baddbmm"),
    Example("mixture_of_experts", MixtureOfExperts, lambda: given(floats(2, 7, 5)), "top-k gates by masks, scatter_"),
    Example("stacked_experts", StackedExperts, lambda: given(floats(2, 5, 4)), "experts in one parameter, one_hot"),
)
