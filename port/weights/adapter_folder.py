"""A PEFT folder: the names of its files and of its tensors, and how it is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from port.weights.safetensors_files import write_safetensors
from port.weights.tensors import Tensor

CONFIG = "adapter_config.json"
SAFETENSORS = "adapter_model.safetensors"
FILES = (SAFETENSORS, "adapter_model.bin")
PREFIX = "base_model.model."
"""What PEFT puts before the names of the model that it adapts."""


def factor_names(path: str) -> tuple[str, str]:
    """The names of a module's factors in PEFT's file: of A and of B."""
    return f"{PREFIX}{path}.lora_A.weight", f"{PREFIX}{path}.lora_B.weight"


def is_adapter(folder: Path | str) -> bool:
    """Whether a folder is one of PEFT's."""
    return (Path(folder) / CONFIG).is_file()


def write_adapter(folder: Path, tensors: Sequence[Tensor], config: str) -> None:
    """Write a PEFT folder.

    Args:
        folder: which is not there yet.
        tensors: under PEFT's names.
        config: the text of ``adapter_config.json``.

    Raises:
        BrokenWeights: a tensor that cannot be written.
        OSError: the folder cannot be written.
    """
    folder.mkdir()
    write_safetensors(folder / SAFETENSORS, tensors, lambda: {"format": "pt"})
    (folder / CONFIG).write_text(config, encoding="utf-8")


def is_adapter_alone(folder: Path) -> bool:
    """Whether a folder holds nothing but what `write_adapter` writes, and the note that PEFT writes beside it."""
    names = {path.name for path in folder.iterdir()}
    return CONFIG in names and names <= {CONFIG, SAFETENSORS, "README.md"}
