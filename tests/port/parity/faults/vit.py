"""A vision transformer: patches, a class token, learned positions, one fused projection written by hand."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn
from torch.nn import functional

from .fault import Fault, Twin, at, drawn, through

WIDTH, HEADS, TOKENS = 12, 2, 7


class Attention(nn.Module):
    """Query, key and value from one projection, which has them in this order, each head by head."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, length, _ = x.shape
        heads = self.qkv(x).reshape(count, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind(0)
        x = functional.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(count, length, WIDTH))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6), Attention(), nn.LayerNorm(WIDTH, eps=1e-6)
        self.fc1, self.act, self.fc2 = nn.Linear(WIDTH, 24), nn.GELU(), nn.Linear(24, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(self.act(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    """(N, 3, 12, 8) → (N, 5)."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, TOKENS, WIDTH))
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def by_head(features: jax.Array) -> tuple[jax.Array, ...]:
    """(N, L, 3E) → query, key and value, each (N, L, H, D)."""
    parts = features.reshape(*features.shape[:2], 3, HEADS, -1)
    return parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]


def head_outside(features: jax.Array) -> tuple[jax.Array, ...]:
    parts = features.reshape(*features.shape[:2], HEADS, 3, -1)
    return parts[:, :, :, 0], parts[:, :, :, 1], parts[:, :, :, 2]


def key_first(features: jax.Array) -> tuple[jax.Array, ...]:
    q, k, v = by_head(features)
    return k, v, q


def head_inside(features: jax.Array) -> tuple[jax.Array, ...]:
    parts = features.reshape(*features.shape[:2], 3, -1, HEADS).swapaxes(-1, -2)
    return parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]


def four_heads(features: jax.Array) -> tuple[jax.Array, ...]:
    parts = features.reshape(*features.shape[:2], 3, 4, -1)
    return parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]


def attend(q: jax.Array, k: jax.Array, v: jax.Array, scale: float = 0.5, *, causal: bool = False) -> jax.Array:
    """softmax(q kᵀ / dᵖ) v; p is ½."""
    logits = jnp.einsum("nlhd,nmhd->nhlm", q, k) / q.shape[-1] ** scale
    if causal:
        logits = jnp.where(jnp.tril(jnp.ones(logits.shape[-2:], bool)), logits, -jnp.inf)
    return jnp.einsum("nhlm,nmhd->nlhd", jax.nn.softmax(logits), v)


class FlaxAttention(nnx.Module):
    def __init__(self, split: Callable[..., tuple[jax.Array, ...]], scale: float, causal: bool) -> None:
        rngs = nnx.Rngs(0)
        self.qkv, self.proj = nnx.Linear(WIDTH, 3 * WIDTH, rngs=rngs), nnx.Linear(WIDTH, WIDTH, rngs=rngs)
        self.split, self.scale, self.causal = split, scale, causal

    def __call__(self, x: jax.Array) -> jax.Array:
        attended = attend(*self.split(self.qkv(x)), self.scale, causal=self.causal)
        return self.proj(attended.reshape(x.shape))


class FlaxBlock(nnx.Module):
    def __init__(
        self,
        split: Callable[..., tuple[jax.Array, ...]],
        scale: float,
        causal: bool,
        epsilon: float,
        act: Callable[[jax.Array], jax.Array],
    ) -> None:
        rngs = nnx.Rngs(0)
        self.norm1, self.norm2 = (
            nnx.LayerNorm(WIDTH, epsilon=epsilon, use_fast_variance=False, rngs=rngs) for _ in "12"
        )
        self.attn = FlaxAttention(split, scale, causal)
        self.fc1, self.fc2 = nnx.Linear(WIDTH, 24, rngs=rngs), nnx.Linear(24, WIDTH, rngs=rngs)
        self.act = act

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(self.act(self.fc1(self.norm2(x))))


class FlaxViT(nnx.Module):
    """The same, (N, 12, 8, 3) → (N, 5)."""

    def __init__(
        self,
        *,
        split: Callable[..., tuple[jax.Array, ...]] = by_head,
        scale: float = 0.5,
        causal: bool = False,
        epsilon: float = 1e-6,
        act: Callable[[jax.Array], jax.Array] = lambda x: jax.nn.gelu(x, approximate=False),
        turned: bool = False,
        token_last: bool = False,
        positions: bool = True,
        pooled: bool = False,
        cast: Callable[[jax.Array], jax.Array] = lambda x: x,
    ) -> None:
        rngs = nnx.Rngs(0)
        self.patch = nnx.Conv(3, WIDTH, (4, 4), strides=4, padding=0, rngs=rngs)
        self.token, self.positions = nnx.Param(jnp.zeros((1, 1, WIDTH))), nnx.Param(jnp.zeros((1, TOKENS, WIDTH)))
        self.blocks = nnx.List([FlaxBlock(split, scale, causal, epsilon, act) for _ in range(2)])
        self.norm = nnx.LayerNorm(WIDTH, epsilon=epsilon, use_fast_variance=False, rngs=rngs)
        self.head = nnx.Linear(WIDTH, 5, rngs=rngs)
        self.turned, self.token_last, self.adds, self.pooled, self.cast = turned, token_last, positions, pooled, cast

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.patch(x)
        x = (x.swapaxes(1, 2) if self.turned else x).reshape(len(x), -1, WIDTH)
        token = jnp.broadcast_to(self.token[...], (len(x), 1, WIDTH))
        x = jnp.concatenate([x, token] if self.token_last else [token, x], 1)
        x = x + self.positions[...] if self.adds else x
        for block in self.blocks:
            x = block(self.cast(x))
        x = self.norm(x)
        return self.head(x.mean(1) if self.pooled else x[:, 0])


VIT = Twin("ViT", ViT, FlaxViT, lambda: drawn(3, 3, 12, 8))

FIRST = "blocks.0.attn.proj"
FAULTS = (
    Fault("tanh GELU", VIT, "blocks.0.fc2", ("tanh-gelu",), {"act": jax.nn.gelu}),
    Fault("epsilon", VIT, "blocks.0.norm1", ("epsilon",), {"epsilon": 1e-5}),
    Fault("scale missing", VIT, FIRST, ("scale-missing",), {"scale": 0.0}),
    Fault("scale twice", VIT, FIRST, ("scale-twice",), {"scale": 1.0}),
    Fault("head order of a fused projection", VIT, FIRST, ("head-order",), {"split": head_outside}),
    Fault("features within heads", VIT, FIRST, ("head-order",), {"split": head_inside}),
    Fault("projection order", VIT, FIRST, ("projection-order",), {"split": key_first}),
    Fault("number of heads", VIT, FIRST, ("number-of-heads",), {"split": four_heads}),
    Fault("causal mask added", VIT, FIRST, ("causal-mask-added",), {"causal": True}),
    Fault("patches in another order", VIT, "blocks.0.norm1", ("token-order",), {"turned": True}),
    Fault("class token last", VIT, "blocks.0.norm1", ("concatenation-order",), {"token_last": True}),
    Fault("positions missing", VIT, "blocks.0.norm1", ("addition-missing",), {"positions": False}),
    Fault("mean for the class token", VIT, "head", ("mean-for-one",), {"pooled": True}),
    Fault("a cast to float16", VIT, "blocks.0.norm1", ("narrow-float16",), {"cast": through(jnp.float16)}),
    Fault(
        "positions not loaded",
        VIT,
        "blocks.0.norm1",
        ("weights-not-loaded",),
        change=at("positions", lambda p: 0.02 * p[:, ::-1] ** 2),
    ),
    Fault(
        "kernel transposed as it is loaded",
        VIT,
        FIRST,
        ("kernel-transposed",),
        change=at("blocks.0.attn.proj.kernel", lambda k: k.T),
    ),
)
