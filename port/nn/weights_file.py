"""Opens the weights file of a generated model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from port.errors import BrokenWeights


def open_weights(path: str | Path) -> Any:
    """Open a safetensors file, as a context manager: ``safetensors.safe_open``, whose errors do not name the file.

    Raises:
        BrokenWeights: it is not a safetensors file.
        FileNotFoundError: there is no such file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, "numpy")
    except SafetensorError as error:
        raise BrokenWeights(
            f"{path} is not a safetensors file that can be read: {error}. Pass the .safetensors file that port wrote; "
            "a checkpoint of PyTorch is converted first, by port convert"
        ) from error
