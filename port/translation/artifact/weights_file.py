"""Write a written module's weights, and the tables that a new module starts with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from port.translation.artifact.metadata import metadata_of
from port.translation.artifact.written_module import WrittenModule
from port.weights.checkpoint import write_checkpoint
from port.weights.tensors import Tensor


def write_weights(made: WrittenModule, path: Path | str, *, overwrite: bool = False) -> None:
    """Write the weights of a written module, with its translation metadata.

    Raises:
        BrokenWeights: the file cannot be written there.
    """
    _write_arrays(Path(path), made.values, metadata_of(made), overwrite=overwrite)


def write_tables(made: WrittenModule, path: Path | str) -> None:
    """Write the tables that a new module starts with.

    Raises:
        BrokenWeights: the file cannot be written there.
    """
    _write_arrays(Path(path), made.tables, {"format": "flax"})


def _write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str], *, overwrite: bool = False
) -> None:
    tensors = [
        Tensor(name, array.shape, array.dtype, lambda array=array: array)  # type: ignore[misc]
        for name, array in arrays.items()
    ]
    write_checkpoint(path, tensors, format="safetensors", metadata=metadata, overwrite=overwrite)
