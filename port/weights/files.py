"""Weights in safetensors files, on numpy: written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping as Arrays
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import numpy as np

from port.errors import BrokenWeights


def read_arrays(path: Path | str) -> dict[str, np.ndarray]:
    """All tensors of a safetensors file, by name.

    Raises:
        BrokenWeights: the file is missing, or is not a safetensors file.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise BrokenWeights(f"{path} cannot be read as a safetensors file: {error}") from error


def write_arrays(path: Path | str, arrays: Arrays[str, np.ndarray]) -> None:
    """Write named arrays; whoever reads ``path`` finds all of them, or what was there before.

    Raises:
        BrokenWeights: the file cannot be written there.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save

    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")  # on the same disk, where replacing is one step
    try:
        contents = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(contents)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise BrokenWeights(f"the weights cannot be written to {path}: {why}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
