"""A vision transformer in Flax with nnx.MultiHeadAttention, for torchvision's `VisionTransformer`.

torchvision keeps queries, keys and values in one fused ``in_proj_weight`` (3 E, E); nnx keeps each apart, cut into
heads: (E, heads, E / heads). The sizes here are all different, so that no axis passes for another.

Paper: Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from torchvision.models import VisionTransformer

from models.attention import attend

LAYERS, HEADS, FEATURES, HIDDEN, CLASSES = 3, 4, 24, 40, 7
PATCH, SIDE = 4, 12

NAMES = {
    r"^encoder\.layers\.encoder_layer_(\d+)\.": r"blocks.\1.",
    r"\.ln_1\.": ".norm_attention.",
    r"\.self_attention\.": ".attention.",
    r"\.ln_2\.": ".norm_mlp.",
    r"\.mlp\.0\.": ".mlp_in.",
    r"\.mlp\.3\.": ".mlp_out.",
    r"^conv_proj\.": "patches.",
    r"^encoder\.pos_embedding$": "positions",
    r"^encoder\.ln\.": "norm.",
    r"^heads\.head\.": "head.",
}

MAPPING_FILE = rf"""
# torchvision's vision transformer → the Flax one, attention said by hand.
[[rule]]
source = 'encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_weight'
target = ['blocks.\1.attention.query.kernel', 'blocks.\1.attention.key.kernel', 'blocks.\1.attention.value.kernel']
moves = [{{ split = 3 }}, {{ permute = [1, 0] }}, {{ reshape = [{FEATURES}, {HEADS}, -1] }}]

[[rule]]
source = 'encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_bias'
target = ['blocks.\1.attention.query.bias', 'blocks.\1.attention.key.bias', 'blocks.\1.attention.value.bias']
moves = [{{ split = 3 }}, {{ reshape = [{HEADS}, -1] }}]

[[rule]]
source = 'encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj\.weight'
target = 'blocks.\1.attention.out.kernel'
moves = [{{ permute = [1, 0] }}, {{ reshape = [{HEADS}, -1, {FEATURES}] }}]

[[rule]]
source = 'encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj\.bias'
target = 'blocks.\1.attention.out.bias'
""" + "".join(f"\n[[rename]]\nfrom = '{old}'\nto = '{new}'\n" for old, new in NAMES.items())


def small_torchvision_vit() -> VisionTransformer:
    """torchvision's, small. (N, 3, 12, 12) → (N, 7)."""
    return VisionTransformer(SIDE, PATCH, LAYERS, HEADS, FEATURES, HIDDEN, num_classes=CLASSES)


class Block(nnx.Module):
    def __init__(self, heads: int, attention_fn: Callable[..., jax.Array], *, dtype: Any, rngs: nnx.Rngs) -> None:
        given: dict[str, Any] = {"param_dtype": dtype, "rngs": rngs}
        norm: dict[str, Any] = {"epsilon": 1e-6, "use_fast_variance": False, **given}
        self.norm_attention = nnx.LayerNorm(FEATURES, **norm)
        self.attention = nnx.MultiHeadAttention(heads, FEATURES, decode=False, attention_fn=attention_fn, **given)
        self.norm_mlp = nnx.LayerNorm(FEATURES, **norm)
        self.mlp_in = nnx.Linear(FEATURES, HIDDEN, **given)
        self.mlp_out = nnx.Linear(HIDDEN, FEATURES, **given)

    def __call__(self, x: jax.Array) -> jax.Array:  # (N, L, E)
        x = x + self.attention(self.norm_attention(x))
        return x + self.mlp_out(jax.nn.gelu(self.mlp_in(self.norm_mlp(x)), approximate=False))


class FlaxViT(nnx.Module):
    """(N, 12, 12, 3) → (N, 7).

    Args:
        heads: of the attention; torchvision's model here has 4.
        attention_fn: what computes it; Flax's own is `nnx.dot_product_attention`.
        dtype: of the parameters.
        rngs: draws them.
    """

    def __init__(
        self,
        *,
        heads: int = HEADS,
        attention_fn: Callable[..., jax.Array] = attend,
        dtype: Any = jnp.float64,
        rngs: nnx.Rngs,
    ) -> None:
        given: dict[str, Any] = {"param_dtype": dtype, "rngs": rngs}
        self.patches = nnx.Conv(3, FEATURES, (PATCH, PATCH), strides=PATCH, padding="VALID", **given)
        self.class_token = nnx.Param(jnp.zeros((1, 1, FEATURES), dtype))
        self.positions = nnx.Param(jnp.zeros((1, (SIDE // PATCH) ** 2 + 1, FEATURES), dtype))
        self.blocks = nnx.List([Block(heads, attention_fn, dtype=dtype, rngs=rngs) for _ in range(LAYERS)])
        self.norm = nnx.LayerNorm(FEATURES, epsilon=1e-6, use_fast_variance=False, **given)
        self.head = nnx.Linear(FEATURES, CLASSES, **given)

    def __call__(self, x: jax.Array) -> jax.Array:
        patches = self.patches(x).reshape(x.shape[0], -1, FEATURES)
        token = jnp.broadcast_to(self.class_token[...], (x.shape[0], 1, FEATURES))
        x = jnp.concatenate([token, patches], axis=1) + self.positions[...]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])
