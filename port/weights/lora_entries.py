"""Entries of a mapping from PEFT's factors to Flax's, which are the other way round."""

from __future__ import annotations

from port.errors import WeightsMismatch
from port.mapping import Entry, Mapping
from port.mapping.guide import Guide
from port.mapping.names import joined, nearest
from port.moves import Permute
from port.weights.adapter_files import Adapter, Factors

LORA = "LoRAParam"
"""Flax's collection of `nnx.LoRAParam`."""
TURNED = (Permute((1, 0)),)


def factor_entries(factors: Factors, targets: tuple[str, str], adapter: Adapter) -> list[Entry]:
    """From PEFT's two factors to Flax's, which are the other way round.

    Args:
        factors: of a module.
        targets: the paths of A and B.
        adapter: whose they are.
    """
    names = (factors.down, factors.up)
    return [
        Entry((name,), (target,), TURNED, LORA, (adapter.tensors.tensors[name].shape,))
        for name, target in zip(names, targets, strict=True)
    ]


def adapted_paths(mapping: Mapping, adapter: Adapter, flax: Guide) -> dict[str, Factors]:
    """Each module's path in Flax that an adapter is of, with its factors.

    Args:
        mapping: from torch's keys to Flax's paths, for the model without its adapter.
        adapter: of it.
        flax: the model without its adapter.

    Raises:
        WeightsMismatch: modules that are no linear layers there; all of them.
    """
    homes = {source: entry for entry in mapping.entries for source in entry.sources}
    paths: dict[str, Factors] = {}
    wrong: list[str] = []
    for factors in adapter.factors:
        entry = homes.get(factors.weight)
        if entry is None:
            wrong.append(f"{factors.path}: the model has no home for {factors.weight}{nearest(factors.weight, homes)}")
            continue
        path = entry.targets[0].rpartition(".")[0]
        layer = flax.by_path.get(path)
        is_linear = layer is not None and any(pair.flax == "flax.nnx.Linear" for pair in layer.pairs)
        if not is_linear or entry.moves != TURNED or entry.targets != (joined(path, "kernel"),):
            kind = "nothing known" if layer is None else layer.kind
            wrong.append(f"{factors.path} → {', '.join(entry.targets)} of {kind}")
            continue
        paths[path] = factors
    if wrong:
        raise WeightsMismatch(
            "an adapter is kept beside nnx.Linear alone, whose weight is one of torch's, and these are none; merged it "
            "goes into any layer (merge=True):\n  " + "\n  ".join(sorted(wrong))
        )
    return paths
