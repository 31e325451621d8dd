"""Layers of a stack that draw with one key: the proof's own numbers are others in each layer, and would not show it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from port.parity.sides.fitting import did_not_fit
from port.parity.sides.precision import cpu_precision
from port.translation.verify.draws import draws_something
from port.translation.verify.other_lengths import OriginalAndWritten
from port.translation.verify.wording import error_of


def shared_keys_of(sides: OriginalAndWritten) -> str:
    """What is wrong with the random streams of a written module's stacks; empty for nothing, and where none draws."""
    from flax import nnx

    written = sides.translation
    if not written.stacked or not draws_something(written.draws.get(True, ())):
        return ""
    try:
        with cpu_precision(sides.precision == "float64" or written.needs_x64):
            return shared_keys(nnx.merge(*sides.written.parts(True)), written.stacked)
    except Exception as error:  # the source's own
        if did_not_fit(error):
            raise
        return error_of(error)


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
