"""Buffers that forward updates: counters, moving averages, a normalisation by hand, a codebook."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


class StepCounter(nn.Module):
    """A warm-up by a counter of the calls in training."""

    def __init__(self, dim: int = 4, warmup: int = 10) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.warmup = warmup
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.step += 1
        weight = torch.clamp(self.step / self.warmup, max=1.0)
        return x + weight * self.fc(x)


class ActivationEMA(nn.Module):
    """A moving average of the activations' size, by which they are divided."""

    def __init__(self, dim: int = 5, decay: float = 0.9) -> None:
        super().__init__()
        self.decay = decay
        self.proj = nn.Linear(dim, 3)
        self.register_buffer("magnitude_ema", torch.ones([]))
        self.register_buffer("mean_ema", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.proj(x)
        if self.training:
            magnitude_cur = y.detach().to(torch.float32).square().mean()
            self.magnitude_ema.copy_(magnitude_cur.lerp(self.magnitude_ema, self.decay))
            with torch.no_grad():
                self.mean_ema.mul_(self.decay).add_(y.mean(dim=0), alpha=1 - self.decay)
        return (y - self.mean_ema) * self.magnitude_ema.rsqrt()


class HandBatchNorm(nn.Module):
    """Batch normalisation as a course has one write it: the buffers are assigned anew."""

    def __init__(self, num_features: int = 3, momentum: float = 0.1, eps: float = 1e-4) -> None:
        super().__init__()
        shape = (1, num_features, 1, 1)
        self.momentum, self.eps = momentum, eps
        self.gamma = nn.Parameter(torch.ones(shape))
        self.beta = nn.Parameter(torch.zeros(shape))
        self.register_buffer("moving_mean", torch.zeros(shape))
        self.register_buffer("moving_var", torch.ones(shape))

    def forward(self, X: Tensor) -> Tensor:
        if not self.training:
            # In prediction mode, use mean and variance obtained by moving average
            X_hat = (X - self.moving_mean) / torch.sqrt(self.moving_var + self.eps)
        else:
            mean = X.mean(dim=(0, 2, 3), keepdim=True)
            var = ((X - mean) ** 2).mean(dim=(0, 2, 3), keepdim=True)
            X_hat = (X - mean) / torch.sqrt(var + self.eps)
            # Update the mean and variance using moving average
            self.moving_mean = (1.0 - self.momentum) * self.moving_mean + self.momentum * mean.detach()
            self.moving_var = (1.0 - self.momentum) * self.moving_var + self.momentum * var.detach()
        return self.gamma * X_hat + self.beta


class VectorQuantizer(nn.Module):
    """VQ-VAE: the nearest code, straight-through gradients, a codebook that follows in training."""

    def __init__(self, num_embeddings: int = 7, dim: int = 3, commitment: float = 0.25, decay: float = 0.8) -> None:
        super().__init__()
        self.pre = nn.Linear(4, dim)
        self.commitment, self.decay = commitment, decay
        generator = torch.Generator().manual_seed(1)
        self.register_buffer("embed", torch.randn(dim, num_embeddings, generator=generator))
        self.register_buffer("cluster_size", torch.zeros(num_embeddings))
        self.register_buffer("embed_avg", self.embed.clone())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs = self.pre(x)
        flatten = inputs.reshape(-1, inputs.shape[-1])
        dist = flatten.pow(2).sum(1, keepdim=True) - 2 * flatten @ self.embed + self.embed.pow(2).sum(0, keepdim=True)
        _, embed_ind = (-dist).max(1)
        embed_onehot = F.one_hot(embed_ind, self.embed.shape[1]).type(flatten.dtype)
        embed_ind = embed_ind.view(*inputs.shape[:-1])
        quantize = F.embedding(embed_ind, self.embed.transpose(0, 1))

        if self.training:
            with torch.no_grad():
                self.cluster_size.mul_(self.decay).add_(embed_onehot.sum(0), alpha=1 - self.decay)
                self.embed_avg.mul_(self.decay).add_(flatten.t() @ embed_onehot, alpha=1 - self.decay)
                n = self.cluster_size.sum()
                cluster_size = (self.cluster_size + 1e-5) / (n + 7 * 1e-5) * n
                self.embed.copy_(self.embed_avg / cluster_size.unsqueeze(0))

        diff = (quantize.detach() - inputs).pow(2).mean() * self.commitment
        quantize = inputs + (quantize - inputs).detach()
        return quantize, diff, embed_ind


class MemoryQueue(nn.Module):
    """MoCo's queue: the newest rows push the oldest out."""

    def __init__(self, dim: int = 3, length: int = 5) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, dim)
        generator = torch.Generator().manual_seed(2)
        self.register_buffer("queue", F.normalize(torch.randn(length, dim, generator=generator), dim=1))

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys: Tensor) -> None:
        self.queue = torch.cat([keys.mean(0, keepdim=True), self.queue[:-1]])

    def forward(self, x: Tensor) -> Tensor:
        q = F.normalize(self.encoder(x), dim=1)
        logits = torch.einsum("nc,kc->nk", [q, self.queue.clone().detach()])
        self._dequeue_and_enqueue(q)
        return logits / 0.07


EXAMPLES = (
    Example("step_counter", StepCounter, lambda: given(floats(3, 4)), "an integer buffer counted in training"),
    Example("activation_ema", ActivationEMA, lambda: given(floats(4, 5)), "buffers by copy_, lerp, mul_ and add_"),
    Example("batch_norm_by_hand", HandBatchNorm, lambda: given(floats(2, 3, 4, 5)), "buffers assigned anew"),
    Example("vector_quantizer", VectorQuantizer, lambda: given(floats(2, 5, 4)), "argmin, one_hot, straight-through"),
    Example("memory_queue", MemoryQueue, lambda: given(floats(3, 4)), "a buffer that is shifted, in evaluation too"),
)
