"""An nnx module's variables, by path. Imports no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from flax import nnx

from port.mapping.nnx_guide import dotted, weights_filter


def variables_of(module: nnx.Module) -> dict[str, np.ndarray]:
    """Return the module's own variables as numpy arrays under their dotted paths, in Flax's layouts."""
    return {dotted(path): np.asarray(weight[...]) for path, weight in weights_of(module)}


def weights_of(module: nnx.Module) -> list[tuple[tuple[Any, ...], Any]]:
    """Return every path with its variable, or its array if a module holds a bare one."""
    return list(nnx.to_flat_state(nnx.state(module, weights_filter())))
