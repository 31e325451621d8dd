"""Models of text, each written twice in the ways in which people write them on either side."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import linen, nnx
from torch import nn

# %% BERT: three projections in torch, attention's own axes in Linen


class BertSelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Any) -> Any:
        def cut(y: Any) -> Any:
            return y.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

        q, k, v = cut(self.query(x)), cut(self.key(x)), cut(self.value(x))
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


class BertLayer(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        output = nn.ModuleDict({"dense": nn.Linear(dim, dim), "LayerNorm": nn.LayerNorm(dim, eps=1e-12)})
        self.attention = nn.ModuleDict({"self": BertSelfAttention(dim, heads), "output": output})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(dim, 2 * dim)})
        self.output = nn.ModuleDict({"dense": nn.Linear(2 * dim, dim), "LayerNorm": nn.LayerNorm(dim, eps=1e-12)})

    def forward(self, x: Any) -> Any:
        out = self.attention["output"]
        x = out["LayerNorm"](x + out["dense"](self.attention["self"](x)))
        y = nn.functional.gelu(self.intermediate["dense"](x))
        return self.output["LayerNorm"](x + self.output["dense"](y))


class Bert(nn.Module):
    def __init__(self, dim: int = 12, heads: int = 3, depth: int = 2) -> None:
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(17, dim, padding_idx=0),
                "position_embeddings": nn.Embedding(8, dim),
                "token_type_embeddings": nn.Embedding(2, dim),
                "LayerNorm": nn.LayerNorm(dim, eps=1e-12),
            }
        )
        self.register_buffer("position_ids", torch.arange(8)[None])
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(BertLayer(dim, heads) for _ in range(depth))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(dim, dim)})

    def forward(self, ids: Any, types: Any) -> Any:
        e = self.embeddings
        x = e["word_embeddings"](ids) + e["token_type_embeddings"](types)
        x = e["LayerNorm"](x + e["position_embeddings"](self.position_ids[:, : ids.shape[1]]))
        for layer in self.encoder["layer"]:
            x = layer(x)
        return x, torch.tanh(self.pooler["dense"](x[:, 0]))


class LinenEncoder1DBlock(linen.Module):
    heads: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        dim = x.shape[-1]
        y = linen.MultiHeadDotProductAttention(self.heads, name="self_attention")(x, x)
        x = linen.LayerNorm(epsilon=1e-12, name="self_attention_layer_norm")(x + y)
        y = linen.gelu(linen.Dense(2 * dim)(x), approximate=False)
        return linen.LayerNorm(epsilon=1e-12, name="output_layer_norm")(x + linen.Dense(dim)(y))


class LinenBert(linen.Module):
    dim: int = 12
    heads: int = 3
    depth: int = 2

    @linen.compact
    def __call__(self, ids: Any, types: Any) -> Any:
        x = linen.Embed(17, self.dim, name="word")(ids)
        x = x + self.param("position", linen.initializers.normal(0.02), (1, 8, self.dim))[:, : ids.shape[1]]
        x = x + linen.Embed(2, self.dim, name="segment")(types)
        x = linen.LayerNorm(epsilon=1e-12, name="layer_norm")(x)
        for _ in range(self.depth):
            x = LinenEncoder1DBlock(self.heads)(x)
        return x, jnp.tanh(linen.Dense(self.dim, name="pooler_transform")(x[:, 0]))


# %% GPT: nanoGPT's way with a tied head and a mask that is kept, and nnx with three projections


class GPTAttention(nn.Module):
    def __init__(self, dim: int, heads: int, length: int) -> None:
        super().__init__()
        self.n_head = heads
        self.c_attn = nn.Linear(dim, 3 * dim, bias=False)
        self.c_proj = nn.Linear(dim, dim, bias=False)
        self.register_buffer("bias", torch.tril(torch.ones(length, length))[None, None])

    def forward(self, x: Any) -> Any:
        length, dim = x.shape[1:]
        q, k, v = (y.unflatten(2, (self.n_head, -1)).transpose(1, 2) for y in self.c_attn(x).split(dim, 2))
        weights = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        weights = weights.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf")).softmax(-1)
        return self.c_proj((weights @ v).transpose(1, 2).flatten(2))


class GPTBlock(nn.Module):
    def __init__(self, dim: int, heads: int, length: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = GPTAttention(dim, heads, length)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(dim, 4 * dim), "c_proj": nn.Linear(4 * dim, dim)})

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, dim: int = 12, heads: int = 3, depth: int = 2, length: int = 8) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(19, dim),
                "wpe": nn.Embedding(length, dim),
                "h": nn.ModuleList(GPTBlock(dim, heads, length) for _ in range(depth)),
                "ln_f": nn.LayerNorm(dim),
            }
        )
        self.lm_head = nn.Linear(dim, 19, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, ids: Any) -> Any:
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1]))
        for block in t["h"]:
            x = block(x)
        return self.lm_head(t["ln_f"](x))


class NnxCausalAttention(nnx.Module):
    def __init__(self, dim: int, heads: int, rngs: nnx.Rngs) -> None:
        self.heads = heads
        make = lambda: nnx.Linear(dim, dim, use_bias=False, rngs=rngs)  # noqa: E731
        self.wq, self.wk, self.wv, self.wo = make(), make(), make(), make()

    def __call__(self, x: Any) -> Any:
        cut = (*x.shape[:2], self.heads, -1)
        q, k, v = (layer(x).reshape(cut) for layer in (self.wq, self.wk, self.wv))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        length = x.shape[1]
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
        return self.wo(jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape))


class NnxGPTBlock(nnx.Module):
    def __init__(self, dim: int, heads: int, rngs: nnx.Rngs) -> None:
        self.pre_attention = nnx.LayerNorm(dim, epsilon=1e-5, rngs=rngs)
        self.attention = NnxCausalAttention(dim, heads, rngs)
        self.pre_mlp = nnx.LayerNorm(dim, epsilon=1e-5, rngs=rngs)
        self.wide = nnx.Linear(dim, 4 * dim, rngs=rngs)
        self.narrow = nnx.Linear(4 * dim, dim, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = x + self.attention(self.pre_attention(x))
        return x + self.narrow(jax.nn.gelu(self.wide(self.pre_mlp(x)), approximate=True))


class NnxGPT(nnx.Module):
    """With the head tied to the embedding, or apart from it."""

    def __init__(self, dim: int = 12, heads: int = 3, depth: int = 2, *, tied: bool = True, rngs: nnx.Rngs) -> None:
        self.token = nnx.Embed(19, dim, rngs=rngs)
        self.position = nnx.Param(0.02 * jax.random.normal(rngs.params(), (8, dim)))
        self.layers = nnx.List([NnxGPTBlock(dim, heads, rngs) for _ in range(depth)])
        self.norm = nnx.LayerNorm(dim, epsilon=1e-5, rngs=rngs)
        self.unembed = None if tied else nnx.Linear(dim, 19, use_bias=False, rngs=rngs)

    def __call__(self, ids: Any) -> Any:
        x = self.token(ids) + self.position[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.token.attend(x) if self.unembed is None else self.unembed(x)


# %% Llama: gates and norms of one's own in torch; fused gates and stacked layers in nnx


class TorchRMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Any) -> Any:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


class LlamaLayer(nn.Module):
    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        make = lambda a, b: nn.Linear(a, b, bias=False)  # noqa: E731
        self.self_attn = nn.ModuleDict({name: make(dim, dim) for name in ("q_proj", "k_proj", "v_proj", "o_proj")})
        self.mlp = nn.ModuleDict(
            {"gate_proj": make(dim, width), "up_proj": make(dim, width), "down_proj": make(width, dim)}
        )
        self.input_layernorm, self.post_attention_layernorm = TorchRMSNorm(dim), TorchRMSNorm(dim)

    def forward(self, x: Any) -> Any:
        a, y = self.self_attn, self.input_layernorm(x)
        q, k, v = (a[f"{name}_proj"](y) for name in "qkv")
        x = x + a["o_proj"]((q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v)
        m, y = self.mlp, self.post_attention_layernorm(x)
        return x + m["down_proj"](nn.functional.silu(m["gate_proj"](y)) * m["up_proj"](y))


class Llama(nn.Module):
    def __init__(self, dim: int = 8, width: int = 12, depth: int = 3) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(13, dim)
        self.layers = nn.ModuleList(LlamaLayer(dim, width) for _ in range(depth))
        self.norm = TorchRMSNorm(dim)
        self.lm_head = nn.Linear(dim, 13, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


class NnxLlamaLayer(nnx.Module):
    def __init__(self, dim: int, width: int, rngs: nnx.Rngs) -> None:
        make = lambda a, b: nnx.Linear(a, b, use_bias=False, rngs=rngs)  # noqa: E731
        self.norm_a, self.norm_b = (nnx.RMSNorm(dim, epsilon=1e-5, rngs=rngs) for _ in range(2))
        self.qkv, self.out = make(dim, 3 * dim), make(dim, dim)
        self.gate_up, self.down = make(dim, 2 * width), make(width, dim)

    def __call__(self, x: Any) -> Any:
        q, k, v = jnp.split(self.qkv(self.norm_a(x)), 3, axis=-1)
        x = x + self.out(jax.nn.softmax(q @ k.swapaxes(-2, -1) * q.shape[-1] ** -0.5) @ v)
        gate, up = jnp.split(self.gate_up(self.norm_b(x)), 2, axis=-1)
        return x + self.down(jax.nn.silu(gate) * up)


class NnxLlama(nnx.Module):
    """Its layers one behind the other, or stacked in one scan."""

    def __init__(self, dim: int = 8, width: int = 12, depth: int = 3, *, scanned: bool, rngs: nnx.Rngs) -> None:
        self.embedder = nnx.Embed(13, dim, rngs=rngs)
        self.scanned = scanned
        if scanned:

            @nnx.split_rngs(splits=depth)
            @nnx.vmap(in_axes=(0,), out_axes=0)
            def make(rngs: nnx.Rngs) -> NnxLlamaLayer:
                return NnxLlamaLayer(dim, width, rngs)

            self.stack = make(rngs)
        else:
            self.stack = nnx.List([NnxLlamaLayer(dim, width, rngs) for _ in range(depth)])
        self.final = nnx.RMSNorm(dim, epsilon=1e-5, rngs=rngs)
        self.logits = nnx.Linear(dim, 13, use_bias=False, rngs=rngs)

    def __call__(self, ids: Any) -> Any:
        x = self.embedder(ids)
        if self.scanned:
            x = nnx.scan(lambda layer, x: layer(x), in_axes=(0, nnx.Carry), out_axes=nnx.Carry)(self.stack, x)
        else:
            for layer in self.stack:
                x = layer(x)
        return self.logits(self.final(x))


# %% BLOOM: query, key and value head by head in one layer; three layers of opaque names in Linen


class BloomAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.num_heads = heads
        self.query_key_value, self.dense = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Any) -> Any:
        fused = self.query_key_value(x).unflatten(2, (self.num_heads, 3, -1))
        q, k, v = (fused[:, :, :, place].transpose(1, 2) for place in range(3))
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        return self.dense((weights @ v).transpose(1, 2).flatten(2))


class Bloom(nn.Module):
    def __init__(self, dim: int = 12, heads: int = 3, depth: int = 2) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(BloomAttention(dim, heads) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        for attention in self.attentions:
            x = x + attention(x)
        return x


class LinenOpaqueAttention(linen.Module):
    heads: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        dim = x.shape[-1]
        q, k, v = (linen.DenseGeneral((self.heads, dim // self.heads))(x) for _ in range(3))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
        return linen.DenseGeneral(dim, axis=(-2, -1))(y)


class LinenBloom(linen.Module):
    heads: int = 3
    depth: int = 2

    @linen.compact
    def __call__(self, x: Any) -> Any:
        for _ in range(self.depth):
            x = x + LinenOpaqueAttention(self.heads)(x)
        return x
