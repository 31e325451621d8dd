"""The weights in a folder of a model's: their names, before they are read, and a mapping that takes them all."""

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
    """The names of a folder's tensors; none where it has a configuration alone, or several checkpoints.

    Raises:
        BrokenWeights: files that are not whole, or are not there.
    """
    if not any(path.match(pattern) for path in folder.iterdir() for pattern in WEIGHTS):
        return frozenset()
    try:
        with opened(folder) as source:
            return frozenset(source)
    except UsageError:  # which of them is meant need not be known to translate the model
        return frozenset()


def taking_all(made: Translation, original: torch.nn.Module, names: Collection[str]) -> Translation:
    """A translation whose mapping leaves out what a folder holds and a model of today does not.

    These are buffers that it computes by itself, as ``position_ids``; an older version of its class saved them, too.

    Args:
        made: the translation.
        original: what it is of.
        names: of the folder's tensors.
    """
    known = {name for entry in made.mapping.entries for name in entry.sources}
    computed = {name for name, _ in original.named_buffers()} - original.state_dict().keys()
    aside = [
        Entry((name,), (name,), collection=TORCH_ONLY, optional=True) for name in sorted(computed & {*names} - known)
    ]
    return replace(made, mapping=Mapping((*made.mapping.entries, *aside), made.mapping.kept)) if aside else made
