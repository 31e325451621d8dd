"""Three models in JAX and Flax. Alone, to see their inputs and outputs:

    python -m side_by_side.jax.model

All take uint8 images, channels last, (N, H, W, C), and scale them to [0, 1] themselves.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from port.data import dataset_info
from port.nn import BatchNorm, DropoutMasks, SharedDropout, torch_bias, torch_kernel
from side_by_side.config import WHOLE_BATCH, Config

HIDDEN = 512


# %% An MLP by hand: a list of (w, b), one sample at a time, then mapped over the batch


def init_mlp_by_hand(sizes: list[int], key: jax.Array, dtype: jnp.dtype) -> list[tuple[jax.Array, jax.Array]]:
    """Weights (out, in) and biases (out,), drawn from N(0, 1) · 1e-2."""
    scale = 1e-2
    keys = jax.random.split(key, (len(sizes) - 1, 2))
    return [
        (
            scale * jax.random.normal(key_w, (size_out, size_in), dtype),
            scale * jax.random.normal(key_b, (size_out,), dtype),
        )
        for (key_w, key_b), (size_in, size_out) in zip(keys, pairwise(sizes), strict=True)
    ]


def mlp_by_hand(params: list[tuple[jax.Array, jax.Array]], pixels: jax.Array) -> jax.Array:
    """One sample: pixels (features,) → logits (classes,)."""
    activations = pixels
    for w, b in params[:-1]:
        activations = jax.nn.relu(w @ activations + b)
    w, b = params[-1]
    return w @ activations + b


class MLPByHand(nnx.Module):
    """Holds the list, so that it trains and saves like any other model."""

    def __init__(self, sizes: list[int], *, param_dtype: jnp.dtype, rngs: nnx.Rngs) -> None:
        params = init_mlp_by_hand(sizes, rngs.params(), param_dtype)
        self.w = nnx.List([nnx.Param(w) for w, _ in params])
        self.b = nnx.List([nnx.Param(b) for _, b in params])

    def __call__(self, images: jax.Array, masks: DropoutMasks, real: jax.Array | None = None) -> jax.Array:
        params = [(w[...], b[...]) for w, b in zip(self.w, self.b, strict=True)]
        pixels = scaled(images, params[0][0].dtype)  # (N, H, W, C)
        pixels = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)  # (N, C·H·W), in torch's order (W6)
        return jax.vmap(mlp_by_hand, in_axes=(None, 0))(params, pixels)


# %% The same MLP as a module


class MLP(nnx.Module):
    """features → 512 → 512 → classes, with dropout after each hidden layer."""

    def __init__(self, sizes: list[int], dropout: float, *, param_dtype: jnp.dtype, rngs: nnx.Rngs) -> None:
        drawn: Any = {"kernel_init": torch_kernel(), "param_dtype": param_dtype, "rngs": rngs}
        self.fc1 = nnx.Linear(sizes[0], sizes[1], bias_init=torch_bias(sizes[0]), **drawn)
        self.dropout1 = SharedDropout(dropout)
        self.fc2 = nnx.Linear(sizes[1], sizes[2], bias_init=torch_bias(sizes[1]), **drawn)
        self.dropout2 = SharedDropout(dropout)
        self.fc3 = nnx.Linear(sizes[2], sizes[3], bias_init=torch_bias(sizes[2]), **drawn)

    def __call__(self, images: jax.Array, masks: DropoutMasks, real: jax.Array | None = None) -> jax.Array:
        x = scaled(images, self.fc1.kernel.dtype)  # (N, H, W, C)
        x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)  # (N, C·H·W), in torch's order (W6)
        x = self.dropout1(jax.nn.relu(self.fc1(x)), masks, 0)
        x = self.dropout2(jax.nn.relu(self.fc2(x)), masks, 1)
        return self.fc3(x)


# %% A convolutional network


def batch_norm(features: int, param_dtype: jnp.dtype, axis_name: str | None) -> BatchNorm:
    """Keras' BatchNormalization(scale=False): eps 1e-3, momentum 0.99 (W7: torch's is one minus that)."""
    return BatchNorm(features, eps=1e-3, momentum=0.01, use_scale=False, axis_name=axis_name, param_dtype=param_dtype)


class ConvNet(nnx.Module):
    """The net of Keras' guide to multi-device training with JAX.

    eps and momentum of BatchNorm are Keras'; initial weights are PyTorch's own (Keras draws Glorot uniform
    kernels and zero biases). Keras' "same" padding at stride 2 is 2 on each side, as the images' sides are even;
    nnx's "SAME" would be that too, here, but not at every stride and size (W3), so it is spelled out.

    ``axis_name`` is the axis of the replicas whose batch statistics are synchronised, if any. Samples that are not
    ``real``, bool (N,), fill up an uneven batch and do not count.
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        dropout: float,
        *,
        axis_name: str | None = None,
        param_dtype: jnp.dtype,
        rngs: nnx.Rngs,
    ) -> None:
        drawn: Any = {"kernel_init": torch_kernel(), "param_dtype": param_dtype, "rngs": rngs}
        self.conv1 = nnx.Conv(channels, 12, (3, 3), padding=1, use_bias=False, **drawn)
        self.norm1 = batch_norm(12, param_dtype, axis_name)
        self.conv2 = nnx.Conv(12, 24, (6, 6), strides=2, padding=0, use_bias=False, **drawn)
        self.norm2 = batch_norm(24, param_dtype, axis_name)
        self.conv3 = nnx.Conv(24, 32, (6, 6), strides=2, padding=2, bias_init=torch_bias(24 * 36), **drawn)
        self.norm3 = batch_norm(32, param_dtype, axis_name)
        self.fc1 = nnx.Linear(32, 256, bias_init=torch_bias(32), **drawn)
        self.dropout = SharedDropout(dropout)
        self.fc2 = nnx.Linear(256, classes, bias_init=torch_bias(256), **drawn)

    def __call__(self, images: jax.Array, masks: DropoutMasks, real: jax.Array | None = None) -> jax.Array:
        counts = None if real is None else real[:, None, None, None]  # (N, 1, 1, 1)
        x = scaled(images, self.fc1.kernel.dtype)  # (N, H, W, C)
        x = jax.nn.relu(self.norm1(self.conv1(x), mask=counts))
        x = jax.nn.relu(self.norm2(self.conv2(x), mask=counts))
        x = jax.nn.relu(self.norm3(self.conv3(x), mask=counts))
        x = x.mean((1, 2))  # (N, C)
        x = self.dropout(jax.nn.relu(self.fc1(x)), masks, 0)
        return self.fc2(x)


# %% Which one, and a loss


def scaled(images: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """uint8 in 0…255 → [0, 1]."""
    return images.astype(dtype) / 255


def build(config: Config, param_dtype: jnp.dtype = jnp.float32) -> nnx.Module:
    """The config's model with weights drawn as torch draws them (W24), from jax's own generator."""
    info = dataset_info(config.dataset)
    sizes = [math.prod(info.image_shape), HIDDEN, HIDDEN, info.classes]
    options: Any = {"param_dtype": param_dtype, "rngs": nnx.Rngs(config.seed)}
    if config.model == "mlp-by-hand":
        return MLPByHand(sizes, **options)
    if config.model == "mlp":
        return MLP(sizes, config.dropout_rate, **options)
    return ConvNet(
        info.image_shape[-1], info.classes, config.dropout_rate, axis_name=synchronised_over(config), **options
    )


def synchronised_over(config: Config) -> str | None:
    """The mapped axis to average batch statistics over; jit over a sharded batch needs none (D5)."""
    is_mapped = config.replicas > 1 and config.parallel not in WHOLE_BATCH
    return "replica" if is_mapped and config.statistics == "synchronised" else None


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """(N, classes), (N,) → the loss of each sample, (N,)."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


# %% Inputs and outputs


def main() -> None:
    """Every model's size and shapes; and the one by hand on numbers that both sides share."""
    jax.config.update("jax_enable_x64", True)  # else the numbers below were float32
    draw = np.random.default_rng(0).standard_normal
    images = jnp.array(draw((4, 1, 8, 8)).transpose(0, 2, 3, 1) * 40 + 128).astype(jnp.uint8)
    for name in ("mlp-by-hand", "mlp", "convnet"):
        model = build(Config(model=name))
        model.eval()
        count = sum(parameter.size for parameter in jax.tree.leaves(nnx.state(model, nnx.Param)))
        logits = model(images, DropoutMasks(jax.random.key(0)))
        print(f"{name:<12} {count:>7} parameters, {tuple(images.shape)} {images.dtype} → {tuple(logits.shape)}")

    params = [(jnp.array(draw((n, m))), jnp.array(draw(n))) for m, n in ((3, 5), (5, 2))]
    print("mlp_by_hand ", *(f"{logit:.12f}" for logit in mlp_by_hand(params, jnp.array(draw(3))).tolist()))


if __name__ == "__main__":
    main()
