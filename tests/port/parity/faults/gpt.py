"""A language model with rotary positions: RMSNorm, causal attention by hand, a gated feed-forward part, tied scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn

from .fault import Fault, Twin, at

WIDTH, HEADS, VOCABULARY, LENGTH = 16, 2, 11, 6
DEPTH = WIDTH // HEADS


def torch_rotary(x: torch.Tensor) -> torch.Tensor:
    """(N, H, L, D), the two halves turned."""
    length, depth = x.shape[-2:]
    frequencies = 10000.0 ** (-torch.arange(0, depth, 2, dtype=x.dtype) / depth)
    angles = torch.outer(torch.arange(length).to(x.dtype), frequencies)
    cos, sin = angles.cos(), angles.sin()
    one, two = x.chunk(2, -1)
    return torch.cat([one * cos - two * sin, one * sin + two * cos], -1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, length, _ = x.shape
        q, k, v = (f(x).view(count, length, HEADS, DEPTH).transpose(1, 2) for f in (self.q, self.k, self.v))
        logits = torch_rotary(q) @ torch_rotary(k).transpose(-1, -2) / DEPTH**0.5
        logits = logits.masked_fill(~self.mask[:length, :length], float("-inf"))
        x = torch.softmax(logits, -1) @ v
        return self.o(x.transpose(1, 2).reshape(count, length, WIDTH))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-5), Attention(), nn.RMSNorm(WIDTH, eps=1e-5)
        self.gate, self.up, self.down = nn.Linear(WIDTH, 24), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        h = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class GPT(nn.Module):
    """Tokens (N, L) → logits (N, L, 11)."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH + 2, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.RMSNorm(WIDTH, eps=1e-5), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) * WIDTH**0.5 + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def angles(length: int, depth: int, dtype: Any, base: float = 10000.0) -> jax.Array:
    return jnp.outer(jnp.arange(length), base ** (-jnp.arange(0, depth, 2, dtype=dtype) / depth))


def rotary(x: jax.Array) -> jax.Array:
    """(N, L, H, D), the two halves turned."""
    turn = angles(x.shape[1], x.shape[-1], x.dtype)[:, None]
    one, two = jnp.split(x, 2, -1)
    return jnp.concatenate([one * jnp.cos(turn) - two * jnp.sin(turn), one * jnp.sin(turn) + two * jnp.cos(turn)], -1)


def interleaved(x: jax.Array) -> jax.Array:
    turn = angles(x.shape[1], x.shape[-1], x.dtype)[:, None]
    one, two = x[..., ::2], x[..., 1::2]
    turned = one * jnp.cos(turn) - two * jnp.sin(turn), one * jnp.sin(turn) + two * jnp.cos(turn)
    return jnp.stack(turned, -1).reshape(x.shape)


def the_other_way(x: jax.Array) -> jax.Array:
    turn = -angles(x.shape[1], x.shape[-1], x.dtype)[:, None]
    one, two = jnp.split(x, 2, -1)
    return jnp.concatenate([one * jnp.cos(turn) - two * jnp.sin(turn), one * jnp.sin(turn) + two * jnp.cos(turn)], -1)


def of_a_later_position(x: jax.Array) -> jax.Array:
    turn = angles(x.shape[1] + 1, x.shape[-1], x.dtype)[1:, None]
    one, two = jnp.split(x, 2, -1)
    return jnp.concatenate([one * jnp.cos(turn) - two * jnp.sin(turn), one * jnp.sin(turn) + two * jnp.cos(turn)], -1)


def causal(length: int) -> jax.Array:
    return jnp.tril(jnp.ones((length, length), bool))


class FlaxAttention(nnx.Module):
    def __init__(self, options: dict[str, Any]) -> None:
        rngs = nnx.Rngs(0)
        self.q, self.k, self.v, self.o = (nnx.Linear(WIDTH, WIDTH, use_bias=False, rngs=rngs) for _ in range(4))
        self.turns: tuple[Callable[[jax.Array], jax.Array], ...] = options.get("turns", (rotary, rotary))
        self.mask, self.scale = options.get("mask", causal), options.get("scale", 0.5)
        self.axis, self.swaps = options.get("axis", -1), options.get("swaps", False)

    def __call__(self, x: jax.Array) -> jax.Array:
        shape = (*x.shape[:2], DEPTH, HEADS) if self.swaps else (*x.shape[:2], HEADS, DEPTH)
        q, k, v = (f(x).reshape(shape) for f in (self.q, self.k, self.v))
        if self.swaps:
            q, k, v = (part.swapaxes(-1, -2) for part in (q, k, v))
        logits = jnp.einsum("nlhd,nmhd->nhlm", self.turns[0](q), self.turns[1](k)) / DEPTH**self.scale
        logits = jnp.where(self.mask(x.shape[1]), logits, -1e30)
        return self.o(jnp.einsum("nhlm,nmhd->nlhd", jax.nn.softmax(logits, self.axis), v).reshape(x.shape))


class FlaxBlock(nnx.Module):
    def __init__(self, options: dict[str, Any]) -> None:
        rngs, epsilon = nnx.Rngs(0), options.get("epsilon", 1e-5)
        self.norm1, self.norm2 = (nnx.RMSNorm(WIDTH, epsilon=epsilon, rngs=rngs) for _ in "12")
        self.attn, self.act = FlaxAttention(options), options.get("act", jax.nn.silu)
        self.gate, self.up = nnx.Linear(WIDTH, 24, rngs=rngs), nnx.Linear(WIDTH, 24, rngs=rngs)
        self.down, self.exchanged = nnx.Linear(24, WIDTH, rngs=rngs), options.get("exchanged", False)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attn(self.norm1(x))
        h = self.norm2(x)
        gate, up = (self.up(h), self.gate(h)) if self.exchanged else (self.gate(h), self.up(h))
        return x + self.down(self.act(gate) * up)


class FlaxGPT(nnx.Module):
    """The same."""

    def __init__(self, **options: Any) -> None:
        rngs = nnx.Rngs(0)
        self.tokens, self.positions = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs), nnx.Embed(LENGTH + 2, WIDTH, rngs=rngs)
        self.blocks = nnx.List([FlaxBlock(options) for _ in range(2)])
        self.norm = nnx.RMSNorm(WIDTH, epsilon=options.get("epsilon", 1e-5), rngs=rngs)
        self.head = nnx.Linear(WIDTH, VOCABULARY, use_bias=False, rngs=rngs)
        self.scales, self.offset = options.get("scales", 1), options.get("offset", 0)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) * WIDTH ** (0.5 * self.scales)
        x = x + self.positions(jnp.arange(tokens.shape[1]) + self.offset)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def tokens() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (3, LENGTH), generator=torch.Generator().manual_seed(2))


GPT_TWIN = Twin("GPT", GPT, FlaxGPT, tokens)

FIRST = "blocks.0.attn.o"


def loaded_as_pairs(module: Any) -> None:
    """Query and key as the weights of a model with interleaved pairs have them."""
    for name in ("q", "k"):
        at(f"blocks.0.attn.{name}.kernel", lambda k: k.reshape(WIDTH, HEADS, 2, -1).swapaxes(2, 3).reshape(k.shape))(
            module
        )


FAULTS = (
    Fault("rotary pairs interleaved", GPT_TWIN, FIRST, ("rotary-pairing",), {"turns": (interleaved, interleaved)}),
    Fault("rotary direction", GPT_TWIN, FIRST, ("rotary-direction",), {"turns": (the_other_way, the_other_way)}),
    Fault(
        "rotary offset of the query", GPT_TWIN, FIRST, ("position-offset",), {"turns": (of_a_later_position, rotary)}
    ),
    Fault("rotary missing", GPT_TWIN, FIRST, ("rotary-missing",), {"turns": (lambda x: x, lambda x: x)}),
    Fault("causal mask missing", GPT_TWIN, FIRST, ("causal-mask-missing",), {"mask": lambda n: jnp.ones((n, n), bool)}),
    Fault("mask reversed", GPT_TWIN, FIRST, ("mask-reversed",), {"mask": lambda n: ~causal(n)}),
    Fault(
        "causal mask shifted",
        GPT_TWIN,
        FIRST,
        ("causal-mask-shifted",),
        {"mask": lambda n: jnp.tril(jnp.ones((n, n), bool), 1)},
    ),
    Fault("scale missing", GPT_TWIN, FIRST, ("scale-missing",), {"scale": 0.0}),
    Fault("scale twice", GPT_TWIN, FIRST, ("scale-twice",), {"scale": 1.0}),
    Fault("softmax along another axis", GPT_TWIN, FIRST, ("softmax-axis",), {"axis": -2}),
    Fault("features within heads", GPT_TWIN, FIRST, ("head-order",), {"swaps": True}),
    Fault("scale of the embedding missing", GPT_TWIN, "blocks.0.norm1", ("scale-missing",), {"scales": 0}),
    Fault("scale of the embedding twice", GPT_TWIN, "blocks.0.norm1", ("scale-twice",), {"scales": 2}),
    Fault("position offset", GPT_TWIN, "positions", ("position-offset",), {"offset": 1}),
    Fault("epsilon", GPT_TWIN, "blocks.0.norm1", ("epsilon",), {"epsilon": 1e-6}),
    Fault("another activation", GPT_TWIN, "blocks.0.down", ("another-activation",), {"act": jax.nn.gelu}),
    Fault("gate exchanged", GPT_TWIN, "blocks.0.down", ("layers-exchanged",), {"exchanged": True}),
    Fault(
        "rotary weights of the other pairing",
        GPT_TWIN,
        "blocks.0.attn.q",
        ("weights-reordered",),
        change=loaded_as_pairs,
    ),
)
