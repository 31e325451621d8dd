"""Fixed initial tables of a new model, stored in a file next to its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from port.nn.unknown_start import missing


class Tables:
    """Named arrays, read from a file at the first access.

    Args:
        path: of a safetensors file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays: Mapping[str, np.ndarray] | None = None

    def array(self, name: str, shape: Sequence[int], dtype: Any) -> jax.Array:
        """Return a table.

        Raises:
            NoInitialValue: the file is missing, or has no such table of this shape; not raised under `nnx.eval_shape`,
                nor within `filled_later`.
        """
        if self.arrays is None and self.path.is_file():
            from safetensors.numpy import load_file

            self.arrays = load_file(self.path)
        found = (self.arrays or {}).get(name)
        if found is None or found.shape != tuple(shape):
            why = "is missing" if self.arrays is None else f"has no {name} of shape {tuple(shape)}"
            return missing(
                f"A new model starts with the table {name}, but {self.path} {why}: put the file that was written with "
                "the source next to it, or load weights",
                shape,
                dtype,
            )
        return jnp.asarray(found, dtype)

    def initializer(self, name: str) -> jax.nn.initializers.Initializer:
        """Return an initializer that reads a table."""

        def initialize(
            key: jax.Array, shape: Sequence[int], dtype: Any = jnp.float32, out_sharding: Any = None
        ) -> jax.Array:
            return self.array(name, shape, dtype)

        return initialize
