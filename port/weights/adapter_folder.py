"""A PEFT folder: the names of its files and tensors, and how to write it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from port.weights.safetensors_files import write_safetensors
from port.weights.tensors import Tensor

CONFIG = "adapter_config.json"
SAFETENSORS = "adapter_model.safetensors"
FILES = (SAFETENSORS, "adapter_model.bin")
PREFIX = "base_model.model."
"""PEFT's prefix for the names of the model that it adapts."""


def factor_names(path: str) -> tuple[str, str]:
    """The names of a module's factors in PEFT's file: A's and B's."""
    return f"{PREFIX}{path}.lora_A.weight", f"{PREFIX}{path}.lora_B.weight"


def is_adapter(folder: Path | str) -> bool:
    """Whether a folder is a PEFT folder."""
    return (Path(folder) / CONFIG).is_file()


def write_adapter(folder: Path, tensors: Sequence[Tensor], config: str) -> None:
    """Write a PEFT folder.

    Args:
        folder: must not exist.
        tensors: under PEFT's names.
        config: the text of ``adapter_config.json``.

    Raises:
        BrokenWeights: a tensor cannot be written.
        OSError: the folder cannot be written.
    """
    folder.mkdir()
    write_safetensors(folder / SAFETENSORS, tensors, lambda: {"format": "pt"})
    (folder / CONFIG).write_text(config, encoding="utf-8")


def is_adapter_alone(folder: Path) -> bool:
    """Whether a folder has only what `write_adapter` writes, and the note that PEFT writes beside it."""
    names = {path.name for path in folder.iterdir()}
    return CONFIG in names and names <= {CONFIG, SAFETENSORS, "README.md"}
