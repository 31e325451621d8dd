"""Converts a PEFT folder alone: its tensors, and their paths in a Flax model that holds them beside its weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from port.errors import UsageError, WeightsMismatch
from port.mapping import Entry, Mapping, between
from port.mapping.names import joined
from port.weights.adapter_files import Adapter
from port.weights.adapter_folder import FILES, is_adapter
from port.weights.driver import Transfer
from port.weights.lora_entries import adapted_layers, factor_entries
from port.weights.options import Options
from port.weights.tensors import Checkpoint


def folder_of_adapter(source: Any) -> Path | None:
    """The PEFT folder that is to be converted, or whose weights are; None for anything else."""
    if isinstance(source, Checkpoint):
        return source.path.parent if source.path.name in FILES and is_adapter(source.path.parent) else None
    is_folder = isinstance(source, str | Path) and is_adapter(source)
    return Path(source) if is_folder else None


def adapter_transfer(adapter: Adapter, options: Options) -> Transfer:
    """Determine how an adapter is converted, beside the weights that it adapts.

    Args:
        adapter: a model's adapter.
        options: the model, without its adapter.

    Raises:
        WeightsMismatch: modules that the model lacks, or that are not linear layers there; all of them.
        UsageError: there is no Flax model.
    """
    torch, flax = options.guides
    if flax is None:
        raise UsageError(
            f"{Path(adapter.config.origin).parent} is an adapter: pass the Flax model that it is "
            "kept beside (--flax module:name), or the weights to merge it into (port convert WEIGHTS --adapter FOLDER)"
        )
    mapping = between(torch, flax, rename=options.rules, fold=options.fold)
    entries = [entry for entry in mapping.entries if set(entry.sources) & set(adapter.whole)]
    whole = Mapping(tuple(_of_adapter(entry, adapter) for entry in entries))
    known = {source for entry in entries for source in entry.sources}
    if lost := sorted(set(adapter.whole) - known):
        raise WeightsMismatch(f"the model has no {', '.join(lost)}, which the adapter stores whole")
    factors: list[Entry] = []
    for path, layer in adapted_layers(mapping, adapter, flax).items():
        factors += factor_entries(layer, (joined(path, "lora_a"), joined(path, "lora_b")), adapter)
    there = Mapping((*whole.entries, *factors))
    named = {name for entry in there.entries for name in entry.sources}
    tensors = adapter.tensors.without([name for name in adapter.tensors if name not in named], "PEFT's own copy")
    there.check(tensors.shapes)
    return Transfer(tensors, there, options, adapter=adapter.config.text)


def _of_adapter(entry: Entry, adapter: Adapter) -> Entry:
    """The model's entry for tensors of the adapter."""
    if lacking := [source for source in entry.sources if source not in adapter.whole]:
        raise WeightsMismatch(f"{entry}: the adapter has only a part of it, without {', '.join(lacking)}")
    return replace(entry, sources=tuple(adapter.whole[source] for source in entry.sources))
