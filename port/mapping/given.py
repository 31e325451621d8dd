"""Checks that a complete mapping fits both models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from port.errors import WeightsMismatch
from port.mapping.accounting import complaints
from port.mapping.entry import TORCH_ONLY, Entry, gather
from port.mapping.guide import Guide
from port.mapping.mapping import Mapping
from port.moves import Shape

BUFFER = "Buffer"
"""Flax's collection of `port.nn`'s buffers."""


def checked(mapping: Mapping, torch: Guide | None, flax: Guide | None) -> Mapping:
    """Return the mapping, with shapes from the models, after checking that it fits.

    Raises:
        WeightsMismatch: tensors of either model that it does not mention, and tensors that it mentions but that are
            missing or have another shape; all in one message.
    """
    entries = mapping.entries
    wrong = []
    if torch is not None:
        shapes = {name: leaf.shape for name, leaf in torch.leaves.items()}
        wrong += [f"torch: {line}" for line in complaints(entries, shapes)]
        entries = tuple(_with_shapes(entry, shapes) for entry in entries)
    if flax is not None and not wrong:
        # A buffer that is not in torch's state dict has no entry, and keeps its value.
        spoken = {target for entry in entries if entry.collection != TORCH_ONLY for target in entry.targets}
        leaves = ((path, leaf) for path, leaf in flax.leaves.items() if path in spoken or leaf.collection != BUFFER)
        shapes = {path: leaf.shape for path, leaf in leaves}
        wrong += [f"Flax: {line}" for line in complaints(_homes(entries), shapes)]
    if wrong:
        raise WeightsMismatch("the mapping does not fit the models:\n  " + "\n  ".join(wrong))
    return Mapping(entries)


def _with_shapes(entry: Entry, shapes: dict[str, Shape]) -> Entry:
    try:
        return replace(entry, shapes=gather(entry, shapes)) if entry.shapes is None else entry
    except KeyError:  # optional, and missing from this model
        return entry


def _homes(entries: Iterable[Entry]) -> list[Entry]:
    """The tensors that are expected on Flax's side."""
    return [_home(entry) for entry in entries if entry.collection != TORCH_ONLY]


def _home(entry: Entry) -> Entry:
    if entry.has_inverse or entry.shapes is None:
        return entry.inverse()
    return Entry(entry.targets, entry.targets, shapes=entry.target_shapes())  # only names and shapes are checked
