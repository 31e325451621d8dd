"""A model whose weights are stored in eight bits beside their scales, as DeepSeek, compressed-tensors and bitsandbytes
store them; and the weights that both say, in float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx

from port.moves import Widen
from port.moves.eight_bits import blocks_of
from port.weights.tensors import dtypes

Arrays = dict[str, np.ndarray]
WIDE = 260
LARGEST = {"float8_e4m3fn": 448, "int8": 127}


class Torch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(11, 6)
        self.up = torch.nn.Linear(6, WIDE)
        self.down = torch.nn.Linear(WIDE, 5, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(self.tokens(ids))))


class Net(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs, param_dtype: Any = jnp.float32) -> None:
        given: dict[str, Any] = {"rngs": rngs, "param_dtype": param_dtype}
        self.tokens = nnx.Embed(11, 6, **given)
        self.up = nnx.Linear(6, WIDE, **given)
        self.down = nnx.Linear(WIDE, 5, use_bias=False, **given)

    def __call__(self, ids: jax.Array) -> jax.Array:
        return self.down(jnp.tanh(self.up(self.tokens(ids))))


LAYOUTS: dict[str, tuple[str, str, dict[str, tuple[int, ...]]]] = {
    "deepseek": ("float8_e4m3fn", "weight_scale_inv", {"up": (3, 1), "down": (1, 3)}),
    "one scale": ("float8_e4m3fn", "weight_scale_inv", {"up": (), "down": ()}),
    "compressed-tensors, rows": ("int8", "weight_scale", {"up": (WIDE, 1), "down": (5, 1)}),
    "compressed-tensors, one": ("float8_e4m3fn", "weight_scale", {"up": (1,), "down": (1,)}),
    "bitsandbytes": ("int8", "SCB", {"up": (WIDE,), "down": (5,)}),
}


def stored(layout: str) -> tuple[Arrays, Arrays]:
    """What a checkpoint holds, and the weights that it says."""
    torch.manual_seed(2)
    wide = {name: tensor.numpy().copy() for name, tensor in Torch().state_dict().items()}
    held = dict(wide)
    dtype, end, shapes = LAYOUTS[layout]
    for path, shape in shapes.items():
        weight = wide[f"{path}.weight"]
        small, scales, said = quantised(weight, dtype, shape, 1 / 127 if end == "SCB" else 1.0)
        held[f"{path}.weight"], held[f"{path}.{end}"], wide[f"{path}.weight"] = small, scales, said
    return held, wide


def quantised(weight: np.ndarray, dtype: str, shape: tuple[int, ...], factor: float = 1.0) -> tuple[np.ndarray, ...]:
    """The weight in eight bits, its scales, and the weight that they say."""
    blocks = blocks_of(weight.shape, shape)
    move = Widen("float32", dtype, blocks, shape, factor=factor)
    grid = np.empty((1,) * weight.ndim if np.prod(shape) == 1 else (*shape, 1)[: weight.ndim], np.float32)
    small = np.empty(weight.shape, dtypes()[dtype])
    for block in np.ndindex(*grid.shape):
        each = zip(block, blocks, strict=True)
        part = tuple(slice(at * size, (at + 1) * size) if size else slice(None) for at, size in each)
        grid[block] = np.abs(weight[part]).max() / np.float32(LARGEST[dtype] * factor)
        divided = weight[part] / (grid[block] * np.float32(factor))
        small[part] = (np.rint(divided) if dtype == "int8" else divided).astype(small.dtype)
    return small, grid.reshape(shape), move((small, grid.reshape(shape)))[0]
