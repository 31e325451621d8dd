"""A GPT in PyTorch, as small language models are commonly written: queries, keys and values in one fused linear layer,
learned positions, pre-norm blocks, a GELU, and a head that shares the embedding's weight.

And the same in nnx, where queries, keys and values are linear layers of their own, and the head is either the
embedding's transpose (`nnx.Embed.attend`) or a linear layer of its own.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch.nn import functional

from models.attention import attend

LAYERS, HEADS, FEATURES, VOCABULARY, LENGTH = 3, 4, 24, 17, 9


class TorchAttention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn = torch.nn.Linear(FEATURES, 3 * FEATURES)
        self.c_proj = torch.nn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (N, L, E)
        heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.c_attn(x).split(FEATURES, dim=-1)]
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.c_proj(attended.transpose(1, 2).flatten(2))


class TorchBlock(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = torch.nn.LayerNorm(FEATURES)
        self.attn = TorchAttention()
        self.ln_2 = torch.nn.LayerNorm(FEATURES)
        self.mlp = torch.nn.ModuleDict(
            {"c_fc": torch.nn.Linear(FEATURES, 4 * FEATURES), "c_proj": torch.nn.Linear(4 * FEATURES, FEATURES)}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


class TorchGPT(torch.nn.Module):
    """Tokens (N, L ≤ 9) → logits (N, L, 17)."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = torch.nn.ModuleDict(
            {
                "wte": torch.nn.Embedding(VOCABULARY, FEATURES),
                "wpe": torch.nn.Embedding(LENGTH, FEATURES),
                "h": torch.nn.ModuleList([TorchBlock() for _ in range(LAYERS)]),
                "ln_f": torch.nn.LayerNorm(FEATURES),
            }
        )
        self.lm_head = torch.nn.Linear(FEATURES, VOCABULARY, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.transformer["wte"](tokens) + self.transformer["wpe"](positions)
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


class Block(nnx.Module):
    def __init__(self, heads: int, *, dtype: Any, rngs: nnx.Rngs) -> None:
        given: dict[str, Any] = {"param_dtype": dtype, "rngs": rngs}
        norm: dict[str, Any] = {"epsilon": 1e-5, "use_fast_variance": False, **given}
        self.norm1 = nnx.LayerNorm(FEATURES, **norm)
        self.query = nnx.Linear(FEATURES, FEATURES, **given)
        self.key = nnx.Linear(FEATURES, FEATURES, **given)
        self.value = nnx.Linear(FEATURES, FEATURES, **given)
        self.out = nnx.Linear(FEATURES, FEATURES, **given)
        self.norm2 = nnx.LayerNorm(FEATURES, **norm)
        self.up = nnx.Linear(FEATURES, 4 * FEATURES, **given)
        self.down = nnx.Linear(4 * FEATURES, FEATURES, **given)
        self.heads = heads

    def __call__(self, x: jax.Array) -> jax.Array:  # (N, L, E)
        y = self.norm1(x)
        heads = (layer(y).reshape(*y.shape[:2], self.heads, -1) for layer in (self.query, self.key, self.value))
        causal = jnp.tri(x.shape[1], dtype=bool)
        x = x + self.out(attend(*heads, mask=causal).reshape(x.shape))
        return x + self.down(jax.nn.gelu(self.up(self.norm2(x)), approximate=False))


class FlaxGPT(nnx.Module):
    """Tokens (N, L ≤ 9) → logits (N, L, 17).

    Args:
        tied: whether the head is the embedding's transpose.
        heads: of the attention; the torch model has 4.
        dtype: of the parameters.
        rngs: draws them.
    """

    def __init__(self, *, tied: bool, heads: int = HEADS, dtype: Any = jnp.float64, rngs: nnx.Rngs) -> None:
        given: dict[str, Any] = {"param_dtype": dtype, "rngs": rngs}
        self.tokens = nnx.Embed(VOCABULARY, FEATURES, **given)
        self.positions = nnx.Embed(LENGTH, FEATURES, **given)
        self.blocks = nnx.List([Block(heads, dtype=dtype, rngs=rngs) for _ in range(LAYERS)])
        self.norm = nnx.LayerNorm(FEATURES, epsilon=1e-5, use_fast_variance=False, **given)
        self.head = None if tied else nnx.Linear(FEATURES, VOCABULARY, use_bias=False, **given)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.tokens.attend(x) if self.head is None else self.head(x)


def mapping_file(*, tied: bool) -> str:
    """The mapping from the torch GPT to the nnx one, as a person writes it."""
    names = {
        r"^transformer\.h\.(\d+)\.": r"blocks.\1.",
        r"\.attn\.c_proj\.": ".out.",
        r"\.mlp\.c_fc\.": ".up.",
        r"\.mlp\.c_proj\.": ".down.",
        r"\.ln_(\d)\.": r".norm\1.",
        r"^transformer\.wte\.": "tokens.",
        r"^transformer\.wpe\.": "positions.",
        r"^transformer\.ln_f\.": "norm.",
        r"^lm_head\.": "tokens." if tied else "head.",
    }
    return r"""
[[rule]]
source = 'transformer\.h\.(\d+)\.attn\.c_attn\.weight'
target = ['blocks.\1.query.kernel', 'blocks.\1.key.kernel', 'blocks.\1.value.kernel']
moves = [{ split = 3 }, { permute = [1, 0] }]

[[rule]]
source = 'transformer\.h\.(\d+)\.attn\.c_attn\.bias'
target = ['blocks.\1.query.bias', 'blocks.\1.key.bias', 'blocks.\1.value.bias']
moves = [{ split = 3 }]
""" + "".join(f"\n[[rename]]\nfrom = '{old}'\nto = '{new}'\n" for old, new in names.items())
