"""`port.load` and `port.save`: a torch module or an nnx module, one file in torch's names and layouts."""

from __future__ import annotations

from collections.abc import Mapping as Arrays
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from port.errors import UsageError
from port.weights.files import read_arrays, write_arrays


def load(module: Any, source: Path | str | Arrays[str, np.ndarray]) -> None:
    """Fill a module with weights, in place.

    Args:
        module: an nnx module (no torch is imported), or a torch module.
        source: a safetensors file, or named arrays or tensors, with the keys and layouts of a state dict. The values
            are converted to the dtypes that the module has.

    Raises:
        BrokenWeights: the file cannot be read.
        WeightsMismatch: missing, unexpected or mis-shaped keys, all in one message; the module is then unchanged.
        NoPair: the module holds a layer whose torch twin is not known.
    """
    arrays = _as_arrays(source) if isinstance(source, Arrays) else read_arrays(source)
    _side(module).fill(module, arrays)


def save(module: Any, path: Path | str) -> None:
    """Write a module's weights as a safetensors file with the keys and layouts of a torch state dict.

    Args:
        module: an nnx module (no torch is imported), or a torch module.
        path: the file, written whole or not at all.
    """
    write_arrays(path, arrays_of(module))


def arrays_of(module: Any) -> dict[str, np.ndarray]:
    """A module's weights as numpy arrays, with the keys and layouts of a torch state dict."""
    return _side(module).arrays_of(module)


def _as_arrays(source: Arrays[str, Any]) -> Arrays[str, np.ndarray]:
    """The same with numpy arrays for tensors: a state dict as it is."""
    if not any(hasattr(value, "detach") for value in source.values()):
        return source
    from port.weights.torch import as_numpy

    return {name: as_numpy(value) if hasattr(value, "detach") else value for name, value in source.items()}


def _side(module: Any) -> ModuleType:
    """The file for this module's framework. Looks at the classes' names, to import neither for the other."""
    families = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(module).__mro__}
    if "torch.nn.modules.module.Module" in families:
        import port.weights.torch

        return port.weights.torch
    if "flax.nnx.module.Module" in families:
        import port.weights.flax

        return port.weights.flax
    raise UsageError(f"expected a torch.nn.Module or a flax.nnx.Module, got {type(module).__qualname__}")
