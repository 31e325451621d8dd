"""The GPT of `models.gpt` in Linen, its blocks under `nn.scan`: one block whose parameters are those of all, stacked.

The torch side's three layers become one, along a new first axis; the fused queries, keys and values become the three
kernels (layers, E, heads, E / heads) of a `nn.MultiHeadDotProductAttention`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen

from models.gpt import FEATURES, HEADS, LAYERS, LENGTH, VOCABULARY

MAPPING_FILE = rf"""
[[rule]]
source = 'transformer\.h\.\d+\.attn\.c_attn\.weight'
target = ['blocks.attention.query.kernel', 'blocks.attention.key.kernel', 'blocks.attention.value.kernel']
moves = [
    {{ stack = 0 }}, {{ split = {{ axis = 1, parts = 3 }} }}, {{ permute = [0, 2, 1] }},
    {{ reshape = [{LAYERS}, {FEATURES}, {HEADS}, -1] }},
]

[[rule]]
source = 'transformer\.h\.\d+\.attn\.c_attn\.bias'
target = ['blocks.attention.query.bias', 'blocks.attention.key.bias', 'blocks.attention.value.bias']
moves = [{{ stack = 0 }}, {{ split = {{ axis = 1, parts = 3 }} }}, {{ reshape = [{LAYERS}, {HEADS}, -1] }}]

[[rule]]
source = 'transformer\.h\.\d+\.attn\.c_proj\.weight'
target = 'blocks.attention.out.kernel'
moves = [{{ stack = 0 }}, {{ permute = [0, 2, 1] }}, {{ reshape = [{LAYERS}, {HEADS}, -1, {FEATURES}] }}]

[[rule]]
source = 'transformer\.h\.\d+\.attn\.c_proj\.bias'
target = 'blocks.attention.out.bias'
moves = [{{ stack = 0 }}]

# What is left of a block has pairs: that there are three of each and one here says that they are stacked.
[[rename]]
from = '^transformer\.h\.\d+\.ln_(\d)\.'
to = 'blocks.norm_\1.'

[[rename]]
from = '^transformer\.h\.\d+\.mlp\.c_fc\.'
to = 'blocks.up.'

[[rename]]
from = '^transformer\.h\.\d+\.mlp\.c_proj\.'
to = 'blocks.down.'

[[rename]]
from = '^transformer\.wte\.|^lm_head\.'
to = 'tokens.'

[[rename]]
from = '^transformer\.wpe\.'
to = 'positions.'

[[rename]]
from = '^transformer\.ln_f\.'
to = 'final_norm.'
"""


class Block(linen.Module):
    """(x, nothing) → (x, nothing), as `nn.scan` wants its step."""

    @linen.compact
    def __call__(self, x: jax.Array, _: None) -> tuple[jax.Array, None]:
        given: dict[str, Any] = {"param_dtype": jnp.float64}
        norm: dict[str, Any] = {"epsilon": 1e-5, "use_fast_variance": False, **given}
        attention = linen.MultiHeadDotProductAttention(HEADS, name="attention", **given)
        mask = linen.make_causal_mask(x[..., 0])
        x = x + attention(linen.LayerNorm(name="norm_1", **norm)(x), mask=mask)
        y = linen.Dense(4 * FEATURES, name="up", **given)(linen.LayerNorm(name="norm_2", **norm)(x))
        return x + linen.Dense(FEATURES, name="down", **given)(linen.gelu(y, approximate=False)), None


class ScannedGPT(linen.Module):
    """Tokens (N, L ≤ 9) → logits (N, L, 17); the head is tied."""

    @linen.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        given: dict[str, Any] = {"param_dtype": jnp.float64}
        embed = linen.Embed(VOCABULARY, FEATURES, name="tokens", **given)
        x = embed(tokens) + linen.Embed(LENGTH, FEATURES, name="positions", **given)(jnp.arange(tokens.shape[1]))
        blocks = linen.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=LAYERS)
        x, _ = blocks(name="blocks")(x, None)
        x = linen.LayerNorm(epsilon=1e-5, use_fast_variance=False, name="final_norm", **given)(x)
        return embed.attend(x)
