"""FromBatchToLoss, translated from PyTorch to Flax NNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from port.nn import BatchNorm, load_weights, saved_arguments, torch_bias, torch_kernel
from port.nn import functional as F


class Net(nnx.Module):
    """Digits of 8 × 8 pixels → 10 classes.

    Translated from __main__.Net.
    """

    def __init__(
        self,
        width: int = 16,
        dropout: float = 0.1,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        rngs: nnx.Rngs,
    ) -> None:
        options: dict[str, Any] = {"dtype": dtype, "param_dtype": param_dtype, "rngs": rngs}
        self.conv1 = nnx.Conv(
            1, width, kernel_size=(3, 3), padding=1, kernel_init=torch_kernel(), bias_init=torch_bias(9), **options
        )
        self.conv2 = nnx.Conv(
            width,
            2 * width,
            kernel_size=(3, 3),
            padding=1,
            kernel_init=torch_kernel(),
            bias_init=torch_bias(width * 9),
            **options,
        )
        self.norm = BatchNorm(2 * width, **options)
        self.dropout = nnx.Dropout(dropout, rngs=rngs)
        self.head = nnx.Linear(
            2 * width * 4 * 4, 10, kernel_init=torch_kernel(), bias_init=torch_bias(2 * width * 4 * 4), **options
        )

    def __call__(self, images: jax.Array) -> jax.Array:
        x = nnx.relu(self.conv1(images))
        x = F.max_pool(nnx.relu(self.norm(self.conv2(x))), (2, 2))
        return self.head(self.dropout(x.reshape(x.shape[0], -1)))


class FromBatchToLoss(nnx.Module):
    """The computation of whole_script.py from a batch to its loss.

    Translated from torch_loss.FromBatchToLoss.
    """

    def __init__(self, model: Any, *, dtype: Any = None, param_dtype: Any = jnp.float32, rngs: nnx.Rngs) -> None:
        self.model = model

    def __call__(self, images: jax.Array, labels: jax.Array) -> jax.Array:
        F.expect(images, "n 8 8 1")
        F.expect(labels, "n", n=images.shape[0])
        x1 = self.model(images)
        loss = F.cross_entropy(x1, labels, label_smoothing=0.1)
        return loss


def load(
    path: str | Path = Path(__file__).with_name("model.safetensors"), *, rngs: nnx.Rngs | None = None, **options: Any
) -> FromBatchToLoss:
    """Load the model with its weights, constructed with the file's arguments; ``options`` go to the constructor."""
    options = {"rngs": rngs or nnx.Rngs(0), **options}
    options = saved_arguments(path, FromBatchToLoss, options, model=Net(**options))
    model = FromBatchToLoss(**options)
    load_weights(model, path)
    return model
