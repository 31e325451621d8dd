"""Two attentions whose masks are numbers that are added: far below zero for padding, further below by distance."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn
from torch.nn import functional

from .fault import Fault, Twin, drawn

WIDTH, LENGTH, BLOCKED, SLOPE = 6, 5, -2e4, 0.3


class Masks(nn.Module):
    """(N, 5, 6) and a mask (N, 5), true where there is something → (N, 5, 6)."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        padding = torch.zeros(mask.shape, dtype=x.dtype).masked_fill(~mask, BLOCKED)[:, None]
        x = self.out(torch.softmax(q @ k.transpose(1, 2) + padding, -1) @ v)
        places = torch.arange(LENGTH, dtype=x.dtype)
        bias = -SLOPE * (places[:, None] - places).abs()
        return self.out(functional.scaled_dot_product_attention(x, x, x, attn_mask=bias))


def right_padding(logits: jax.Array, mask: jax.Array) -> jax.Array:
    return logits + jnp.where(mask, 0.0, BLOCKED)[:, None]


class FlaxMasks(nnx.Module):
    """The same."""

    def __init__(
        self, *, padding: Callable[[jax.Array, jax.Array], jax.Array] = right_padding, slope: float = SLOPE
    ) -> None:
        rngs = nnx.Rngs(0)
        self.qkv, self.out = nnx.Linear(WIDTH, 3 * WIDTH, rngs=rngs), nnx.Linear(WIDTH, WIDTH, rngs=rngs)
        self.padding, self.slope = padding, slope

    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        q, k, v = jnp.split(self.qkv(x), 3, -1)
        x = self.out(jax.nn.softmax(self.padding(q @ k.swapaxes(1, 2), mask)) @ v)
        places = jnp.arange(LENGTH)
        logits = x @ x.swapaxes(1, 2) / WIDTH**0.5 - self.slope * jnp.abs(places[:, None] - places)
        return self.out(jax.nn.softmax(logits) @ x)


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    return drawn(3, LENGTH, WIDTH), torch.arange(LENGTH) < torch.tensor([3, 5, 2])[:, None]


MASKS = Twin("Masks", Masks, FlaxMasks, padded)

FAULTS = (
    Fault(
        "mask subtracted",
        MASKS,
        "out",
        ("mask-sign", "mask-reversed"),  # of what is blocked or not, the two are the same
        {"padding": lambda logits, mask: logits - jnp.where(mask, 0.0, BLOCKED)[:, None]},
    ),
    Fault(
        "numbers for the mask",
        MASKS,
        "out",
        ("mask-added-as-numbers",),
        {"padding": lambda logits, mask: logits + mask[:, None]},
    ),
    Fault("bias subtracted", MASKS, "out", ("mask-sign",), {"slope": -SLOPE}),
    Fault("bias missing", MASKS, "out", ("mask-missing",), {"slope": 0.0}),
)
