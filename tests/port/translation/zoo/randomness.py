"""What is drawn in training: every dropout, depth, noise, and what variational autoencoders sample."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


class Functional(nn.Module):
    """MNIST's example: dropout by function and by layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, kernel_size=3)
        self.conv2 = nn.Conv2d(4, 5, kernel_size=3)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(5 * 2 * 3, 6)
        self.fc2 = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(F.dropout2d(self.conv1(x), 0.1, training=self.training), 2))
        x = F.relu(self.conv2_drop(self.conv2(x)))
        x = x.view(-1, 5 * 2 * 3)
        x = F.relu(self.fc1(x))
        x = F.dropout(x, p=0.3, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


class Variants(nn.Module):
    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p=0.2, inplace=False)
        self.drop1d = nn.Dropout1d(0.3)
        self.alpha = nn.AlphaDropout(0.25)
        self.none = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        y = self.alpha(torch.selu(self.fc(self.drop(x))))
        y = self.none(self.drop1d(y))
        return y + F.dropout(x, 0.5, self.training)


class NoisyLinear(nn.Module):
    """Factorised noise, of Rainbow; without it in evaluation."""

    def __init__(self, in_features: int, out_features: int, std_init: float = 0.5) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight_mu = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.weight_sigma = nn.Parameter(torch.full((out_features, in_features), std_init / in_features**0.5))
        self.bias_mu = nn.Parameter(torch.zeros(out_features))
        self.bias_sigma = nn.Parameter(torch.full((out_features,), std_init / out_features**0.5))

    @staticmethod
    def _scale_noise(size: int) -> Tensor:
        x = torch.randn(size)
        return x.sign().mul_(x.abs().sqrt_())

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return F.linear(input, self.weight_mu, self.bias_mu)
        epsilon_in = self._scale_noise(self.in_features)
        epsilon_out = self._scale_noise(self.out_features)
        weight = self.weight_mu + self.weight_sigma * epsilon_out.outer(epsilon_in)
        return F.linear(input, weight, self.bias_mu + self.bias_sigma * epsilon_out)


class StochasticDepth(nn.Module):
    """Written by hand; each layer less likely than the one before, a whole sample at once."""

    def __init__(self, channels: int = 3, depth: int = 3, last: float = 0.6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(channels, channels, 3, padding=1, padding_mode="circular") for _ in range(depth)
        )
        self.keeps = [1 - (1 - last) * (i + 1) / depth for i in range(depth)]

    def forward(self, x: Tensor) -> Tensor:
        for layer, keep in zip(self.layers, self.keeps, strict=True):
            residual = torch.relu(layer(x))
            if self.training:
                gate = torch.rand(x.shape[0], 1, 1, 1, dtype=x.dtype, device=x.device) < keep
                x = x + residual * gate / keep
            else:
                x = x + residual
        return x


class VAE(nn.Module):
    """The example of torch's own; noise is drawn in training alone."""

    def __init__(self, n_in: int = 10, latent: int = 3) -> None:
        super().__init__()
        self.fc1 = nn.Linear(n_in, 8)
        self.fc21 = nn.Linear(8, latent)
        self.fc22 = nn.Linear(8, latent)
        self.fc3 = nn.Linear(latent, 8)
        self.fc4 = nn.Linear(8, n_in)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu: Tensor, logvar: Tensor) -> Tensor:
        if not self.training:
            return mu
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z: Tensor) -> Tensor:
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        flat = x.flatten(start_dim=1)
        mu, logvar = self.encode(flat)
        z = self.reparameterize(mu, logvar)
        recon = self.decode(z)
        BCE = F.binary_cross_entropy(recon, flat.sigmoid(), reduction="sum")
        KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return recon.view_as(x), mu, logvar, BCE + KLD


class Denoiser(nn.Module):
    """A diffusion model's loss: noise of a level that is given, and embeddings of that level."""

    def __init__(self, steps: int = 9, dim: int = 5) -> None:
        super().__init__()
        betas = torch.linspace(1e-3, 0.3, steps)
        self.register_buffer("alphas_cumprod", torch.cumprod(1.0 - betas, dim=0))
        self.time = nn.Sequential(nn.Linear(4, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.net = nn.Sequential(nn.Linear(dim, 7), nn.SiLU(), nn.Linear(7, dim))

    def embed(self, t: Tensor) -> Tensor:
        freqs = torch.exp(-torch.arange(2, dtype=torch.float32) * 2.3)
        args = t[:, None].float() * freqs[None]
        return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)

    def forward(self, x0: Tensor, t: Tensor) -> Tensor:
        noise = torch.randn_like(x0) if self.training else torch.zeros_like(x0)
        a = self.alphas_cumprod[t].view(-1, *([1] * (x0.ndim - 1)))
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        return F.mse_loss(self.net(xt + self.time(self.embed(t))), noise, reduction="none").mean(dim=1)


class GaussianNoise(nn.Module):
    """Several ways to draw, beside one another."""

    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.p = 0.35

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x + 0.1 * torch.randn(x.shape)
            x = x * torch.empty_like(x).uniform_(0.9, 1.1)
            x = x.masked_fill(torch.rand_like(x) < self.p, 0.0)
            x = x + torch.zeros_like(x).normal_(mean=0.0, std=0.02)
            x = x * torch.bernoulli(torch.full((x.size(0), 1), 1 - self.p))
        return self.fc(x)


EXAMPLES = (
    Example("dropout_functional", Functional, lambda: given(floats(3, 1, 10, 12)), "F.dropout, F.dropout2d, Dropout2d"),
    Example("dropout_variants", Variants, lambda: given(floats(2, 3, 6)), "Dropout1d, AlphaDropout, a rate of zero"),
    Example("noisy_linear", lambda: NoisyLinear(5, 3), lambda: given(floats(4, 5)), "noise in the weights"),
    Example("stochastic_depth", StochasticDepth, lambda: given(floats(3, 3, 4, 5)), "rand < keep, circular padding"),
    Example("vae", VAE, lambda: given(floats(3, 2, 5)), "randn_like in training, the loss in forward"),
    Example("denoiser", Denoiser, lambda: given(floats(3, 5), torch.tensor([8, 0, 3])), "noise of a given level"),
    Example(
        "ways_to_draw", GaussianNoise, lambda: given(floats(3, 4)), "randn, uniform_, rand_like, normal_, bernoulli"
    ),
)
