"""The evaluation of whole_script.py in JAX: its lines around numbers that are computed here.

The same in PyTorch, for one batch, is in torch_evaluation.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from port.nn import functional as F


class FromBatchToNumbers(nnx.Module):
    """The computation of whole_script.py for a batch of its evaluation.

    Translated from torch_evaluation.FromBatchToNumbers.
    """

    def __init__(self, model: Any, *, dtype: Any = None, param_dtype: Any = jnp.float32, rngs: nnx.Rngs) -> None:
        self.model = model

    def __call__(self, images: jax.Array, labels: jax.Array) -> Any:
        F.expect(images, "n 8 8 1")
        F.expect(labels, "n", n=images.shape[0])
        logits = self.model(images)
        x2 = F.cross_entropy(logits, labels, reduction="sum")
        x3 = jnp.argmax(logits, axis=-1, keepdims=False)
        x4 = x3 == labels
        x5 = jnp.sum(x4)
        return (x2, x5)


@partial(jax.jit, static_argnums=0)
def numbers_of(graphdef: Any, state: Any, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, ...]:
    """The numbers of a batch for `evaluate`, in evaluation mode."""
    model = nnx.merge(graphdef, state.params, state.rest, copy=True)
    model.eval()
    return FromBatchToNumbers(model.model, rngs=nnx.Rngs(0))(images, labels)


def evaluate(measure: Callable[[Any], tuple[jax.Array, ...]], loader: Any) -> None:
    """As at whole_script.py:58, `for images, labels in loader`; ``measure`` returns the numbers of a batch."""
    loss, right, count = (0.0, 0, 0)
    for images, labels in loader:
        numbers = measure((images, labels))
        loss += numbers[0].item()
        right += numbers[1].item()
        count += len(labels)
    print(f"test: loss {loss / count:.4f}, accuracy {100 * right / count:.1f} %")
