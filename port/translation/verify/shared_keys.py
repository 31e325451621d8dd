"""Layers of a stack that draw with one key: the proof's own numbers are others in each layer, and would not show it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np


def shared_keys(module: Any, stacks: Collection[str]) -> str:
    """What is wrong with the random streams of a Flax module's stacks; empty where each layer has its own.

    Args:
        module: with its streams.
        stacks: their dotted paths.
    """
    import jax
    from flax import nnx

    for path, key in nnx.to_flat_state(nnx.state(module, nnx.RngKey)):
        dotted = ".".join(map(str, path))
        if not any(dotted.startswith(f"{stack}.") for stack in stacks):
            continue
        data = np.asarray(jax.random.key_data(key.get_value()))
        rows = data.reshape(-1, data.shape[-1])
        same = np.unique(rows, axis=0)
        if len(same) < len(rows) or data.ndim < 2:
            return (
                f"the layers of a stack draw with one key, and so alike: {dotted} has {len(same)} for "
                f"{max(len(rows), 2)} layers or more. Each layer needs a random stream of its own, as port.nn.stacked "
                "makes them"
            )
    return ""
