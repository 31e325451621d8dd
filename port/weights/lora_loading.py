"""Loads a model's weights and an adapter beside them: each factor into its place in the Flax model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from flax import nnx

from port.errors import WeightsMismatch
from port.mapping import Entry, Mapping
from port.weights.adapter_files import Adapter
from port.weights.adapters import adapted_whole, check_fits, meant_by
from port.weights.driver import find
from port.weights.lora_entries import AdaptedLayer, adapted_layers, factor_entries
from port.weights.lora_places import LoRAPlace, Wrapping, guide_without, lora_places, put_around, take_off
from port.weights.options import Options
from port.weights.sources import Source, is_torch


def beside(
    module: nnx.Module, base: Source, adapter: Adapter, source: Any, how: dict[str, Any], rngs: nnx.Rngs | None
) -> tuple[Source, Mapping]:
    """Return the tensors of a model and its adapter, and their targets in an nnx model that holds both.

    A model without LoRA factors gets them, in place: `port.nn.LoRA` around each linear layer that the adapter covers.

    Args:
        module: an nnx model.
        base: torch's state dict.
        adapter: the model's adapter.
        source: what ``base`` was opened from.
        how: ``rename`` and ``fold``, as for `port.load`.
        rngs: draws the masks of the adapter's dropout.

    Raises:
        WeightsMismatch: everything that does not fit. The model is then unchanged.
    """
    base = base.without_prefixes(meant_by(adapter))
    check_fits(base, adapter)
    places = lora_places(module)
    guide = guide_without(module, places)
    options = Options(torch=source if is_torch(source) else None, flax=guide, **how)
    found = find(adapted_whole(base, adapter), options)
    layers = adapted_layers(found.mapping, adapter, guide)
    if places:
        _check_places(places, layers)
    else:
        put_around(module, {path: _wrapping(path, layer, adapter) for path, layer in layers.items()}, rngs)
        places = lora_places(module)
        if lost := sorted(set(layers) - set(places)):
            take_off(module)
            raise WeightsMismatch(
                f"the model holds these where they cannot be replaced, as in a tuple: {', '.join(lost)}"
            )
    factors = [name for each in adapter.factors for name in (each.down, each.up)]
    tensors = found.tensors.beside(adapter.tensors.renamed({name: name for name in factors}))
    entries = [_with_adapter(entry, places) for entry in found.mapping.entries]
    for path, layer in layers.items():
        entries += factor_entries(layer, places[path].factors, adapter)
    return tensors, Mapping(tuple(entries), found.mapping.kept)


def _wrapping(path: str, layer: AdaptedLayer, adapter: Adapter) -> Wrapping:
    first = layer.factors[0]
    if layer.is_stack and adapter.config.dropout:
        raise WeightsMismatch(
            f"{path} is a stack of layers, and one dropout would draw the same masks for all: set lora_dropout to 0 in "
            f"{adapter.config.origin}, or build the model without a stack"
        )
    dtype: np.dtype = jax.dtypes.canonicalize_dtype(adapter.tensors.tensors[first.down].dtype)
    stacked = len(layer.factors) if layer.is_stack else None
    return Wrapping(first.rank, first.scaling, dtype, adapter.config.dropout, stacked)


def _with_adapter(entry: Entry, places: dict[str, LoRAPlace]) -> Entry:
    """Convert an entry of the model without its adapter to the paths that it has with it."""
    paths = tuple(target.rpartition(".")[0] for target in entry.targets)
    return replace(
        entry,
        targets=tuple(
            places[path].within(target) if path in places else target
            for path, target in zip(paths, entry.targets, strict=True)
        ),
    )


def _check_places(places: dict[str, LoRAPlace], layers: dict[str, AdaptedLayer]) -> None:
    """Check that a model's LoRA modules match an adapter; raises WeightsMismatch with all that do not."""
    missing, unexpected = sorted(set(places) - set(layers)), sorted(set(layers) - set(places))
    wrong = [f"missing: the adapter of {path}, which the model has factors for" for path in missing]
    wrong += [f"unexpected: the adapter of {path}, which it has none for" for path in unexpected]
    for path in sorted(set(layers) & set(places)):
        place, factors = places[path], layers[path].factors[0]
        if place.rank != factors.rank:
            wrong.append(f"{path} has rank {place.rank}, its adapter rank {factors.rank}")
        if place.scaling != factors.scaling:
            has = "" if hasattr(place.lora, "scaling") else " (nnx.LoRA has none; port.nn.LoRA has)"
            wrong.append(f"{path} scales by {place.scaling:g}{has}, its adapter by {factors.scaling:g}")
    if wrong:
        raise WeightsMismatch(
            "the model's LoRA modules do not match this adapter; a model without any gets what fits:\n  "
            + "\n  ".join(wrong)
        )
