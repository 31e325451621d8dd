"""Named arrays in one safetensors file, written atomically."""

from __future__ import annotations

from collections.abc import Mapping as Arrays
from pathlib import Path

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.weights.checkpoint import Tensor, write_checkpoint
from port.weights.safetensors_files import open_safetensors


def read_arrays(path: Path | str) -> dict[str, np.ndarray]:
    """Read all tensors of a safetensors file, by name, into memory.

    Raises:
        BrokenWeights: the file is missing, or is not a safetensors file.
    """
    with open_safetensors(path) as checkpoint:
        return {name: checkpoint.read(name).copy() for name in checkpoint.tensors}


def write_arrays(path: Path | str, arrays: Arrays[str, np.ndarray]) -> None:
    """Write named arrays to a safetensors file; readers find all of them, or the previous contents.

    Raises:
        BrokenWeights: the file cannot be written.
    """
    tensors = [_as_tensor(name, np.asarray(array)) for name, array in arrays.items()]
    try:
        write_checkpoint(path, tensors, format="safetensors", overwrite=True)
    except (BrokenWeights, UsageError) as error:
        place = f"the weights cannot be written to {path}"
        raise error if str(error).startswith(place) else BrokenWeights(f"{place}: {error}") from error


def _as_tensor(name: str, array: np.ndarray) -> Tensor:
    return Tensor(name, array.shape, array.dtype, lambda: array)
