"""The language model's twin in Linen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen

from .fault import Fault, LinenTwin, beneath, fresh_values
from .gpt import (
    DEPTH,
    FIRST,
    GPT,
    HEADS,
    LENGTH,
    VOCABULARY,
    WIDTH,
    causal,
    interleaved,
    of_a_later_position,
    rotary,
    tokens,
)

Options = dict[str, Any]


def projection(name: str) -> linen.Dense:
    return linen.Dense(WIDTH, use_bias=False, name=name)


class LinenAttention(linen.Module):
    options: Options

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        turns = self.options.get("turns", (rotary, rotary))
        q, k, v = (projection(name)(x).reshape(*x.shape[:2], HEADS, DEPTH) for name in "qkv")
        scale = self.options.get("scale", 0.5)
        logits = jnp.einsum("nlhd,nmhd->nhlm", turns[0](q), turns[1](k)) / DEPTH**scale
        mask: Callable[[int], jax.Array] = self.options.get("mask", causal)
        if self.options.get("adds", False):
            logits = logits + mask(x.shape[1])
        else:
            logits = jnp.where(mask(x.shape[1]), logits, -1e30)
        weights = jax.nn.softmax(logits, self.options.get("axis", -1))
        return projection("o")(jnp.einsum("nhlm,nmhd->nlhd", weights, v).reshape(x.shape))


class LinenBlock(linen.Module):
    options: Options

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        epsilon, act = self.options.get("epsilon", 1e-5), self.options.get("act", jax.nn.silu)
        x = x + LinenAttention(self.options, name="attn")(linen.RMSNorm(epsilon=epsilon, name="norm1")(x))
        h = linen.RMSNorm(epsilon=epsilon, name="norm2")(x)
        gate, up = linen.Dense(24, name="gate")(h), linen.Dense(24, name="up")(h)
        gate, up = (up, gate) if self.options.get("exchanged", False) else (gate, up)
        return x + linen.Dense(WIDTH, name="down")(act(gate) * up)


class LinenGPT(linen.Module):
    """The same."""

    options: Options

    @linen.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = linen.Embed(VOCABULARY, WIDTH, name="tokens")(tokens) * WIDTH ** (0.5 * self.options.get("scales", 1))
        places = jnp.arange(tokens.shape[1]) + self.options.get("offset", 0)
        x = x + linen.Embed(LENGTH + 2, WIDTH, name="positions")(places)
        for number in range(2):
            x = LinenBlock(self.options, name=f"blocks_{number}")(x)
        x = linen.RMSNorm(epsilon=self.options.get("epsilon", 1e-5), name="norm")(x)
        return linen.Dense(VOCABULARY, use_bias=False, name="head")(x)


GPT_TWIN = LinenTwin("GPT, Linen", GPT, lambda **options: LinenGPT(options), tokens)

FAULTS = (
    Fault("rotary pairs interleaved", GPT_TWIN, FIRST, ("rotary-pairing",), {"turns": (interleaved, interleaved)}),
    Fault(
        "rotary offset of the query", GPT_TWIN, FIRST, ("position-offset",), {"turns": (of_a_later_position, rotary)}
    ),
    Fault("causal mask missing", GPT_TWIN, FIRST, ("causal-mask-missing",), {"mask": lambda n: jnp.ones((n, n), bool)}),
    Fault("mask reversed", GPT_TWIN, FIRST, ("mask-reversed",), {"mask": lambda n: ~causal(n)}),
    Fault("boolean mask added", GPT_TWIN, FIRST, ("mask-added-as-numbers",), {"adds": True}),
    Fault("scale missing", GPT_TWIN, FIRST, ("scale-missing",), {"scale": 0.0}),
    Fault("softmax along another axis", GPT_TWIN, FIRST, ("softmax-axis",), {"axis": -2}),
    Fault("scale of the embedding missing", GPT_TWIN, "blocks.0.norm1", ("scale-missing",), {"scales": 0}),
    Fault("position offset", GPT_TWIN, "positions", ("position-offset",), {"offset": 1}),
    Fault("epsilon", GPT_TWIN, "blocks.0.norm1", ("epsilon",), {"epsilon": 1e-6}),
    Fault("another activation", GPT_TWIN, "blocks.0.down", ("another-activation",), {"act": jax.nn.gelu}),
    Fault("gate exchanged", GPT_TWIN, "blocks.0.down", ("layers-exchanged",), {"exchanged": True}),
    Fault(
        "weights not loaded",
        GPT_TWIN,
        "blocks.1.attn.v",
        ("weights-not-loaded",),
        change=beneath("params.blocks_1.attn.v.kernel", fresh_values),
    ),
)
