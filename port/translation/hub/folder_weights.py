"""The weights in a model's folder: their names, before they are read, and a mapping that accounts for all of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from port.errors import UsageError
from port.mapping import TORCH_ONLY, Entry, Mapping
from port.translation.result import Translation
from port.weights.sources import opened

if TYPE_CHECKING:
    import torch

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin", "pytorch_model*.bin.index.json")


def names_in(folder: Path) -> frozenset[str]:
    """Return the names of a folder's tensors; empty if it has no weights, or several checkpoints.

    Raises:
        BrokenWeights: a file is missing or truncated.
    """
    if not any(path.match(pattern) for path in folder.iterdir() for pattern in WEIGHTS):
        return frozenset()
    try:
        with opened(folder) as source:
            return frozenset(source)
    except UsageError:  # several checkpoints; the model can be translated without choosing one
        return frozenset()


def taking_all(made: Translation, original: torch.nn.Module, names: Collection[str]) -> Translation:
    """Return a translation whose mapping leaves out the folder's tensors that the model computes by itself.

    These are buffers such as ``position_ids``, which older versions of the class saved.

    Args:
        made: the translation.
        original: the translated model.
        names: the names of the folder's tensors.
    """
    known = {name for entry in made.mapping.entries for name in entry.sources}
    computed = {name for name, _ in original.named_buffers()} - original.state_dict().keys()
    aside = [
        Entry((name,), (name,), collection=TORCH_ONLY, optional=True) for name in sorted(computed & {*names} - known)
    ]
    return replace(made, mapping=Mapping((*made.mapping.entries, *aside), made.mapping.kept)) if aside else made
