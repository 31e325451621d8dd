"""Find layers of a stack that share a random key; the proof supplies its own numbers, and would not notice."""

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
    """Describe the fault in the random streams of a written module's stacks; empty if there is none, or none draws."""
    from flax import nnx

    written = sides.translation
    if not written.stacked or not draws_something(written.draws.get(True, ())):
        return ""
    try:
        with cpu_precision(sides.precision == "float64" or written.needs_x64):
            return shared_keys(nnx.merge(*sides.written.parts(True)), written.stacked)
    except Exception as error:  # the source's error
        if did_not_fit(error):
            raise
        return error_of(error)


def shared_keys(module: Any, stacks: Collection[str]) -> str:
    """Describe the fault in the random streams of a Flax module's stacks; empty if each layer has its own stream.

    Args:
        module: the Flax module.
        stacks: the stacks' dotted paths.
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
                f"the layers of a stack share a random key, and so draw the same numbers: {dotted} has {len(same)} for "
                f"{max(len(rows), 2)} layers or more. Each layer needs its own random stream, as port.nn.stacked "
                "creates them"
            )
    return ""
