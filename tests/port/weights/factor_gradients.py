"""What a model with an adapter beside it gives for some tokens, and the gradients of its factors."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from tests.port.conftest import jit

IDS = np.array([[1, 10, 0, 4], [3, 3, 7, 9]])


@jit
def computed(graph: Any, state: Any) -> tuple[Any, Any]:
    """The outputs, and the gradients of the factors alone."""
    model = nnx.merge(graph, state)
    gradients = nnx.grad(lambda m: jnp.square(m(IDS)).sum(), argnums=nnx.DiffState(0, nnx.LoRAParam))(model)
    return model(IDS), gradients
