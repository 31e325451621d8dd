"""Mapping entries from PEFT's factors to Flax's, which are transposed."""

from __future__ import annotations

from dataclasses import dataclass

from port.errors import WeightsMismatch
from port.mapping import Entry, Mapping
from port.mapping.guide import Guide
from port.mapping.names import joined, nearest
from port.moves import Move, Permute, Stack
from port.weights.adapter_files import Adapter, Factors

LORA = "LoRAParam"
"""Flax's collection of `nnx.LoRAParam`."""
TURNED = (Permute((1, 0)),)


@dataclass(frozen=True)
class AdaptedLayer:
    """A linear layer of the Flax model, and the adapter that is kept beside it.

    Attributes:
        factors: of the torch module with its weight; of each of several, if it is a stack of them.
        is_stack: whether it is a stack: its parameters have an additional leading axis.
    """

    factors: tuple[Factors, ...]
    is_stack: bool = False

    @property
    def moves(self) -> tuple[Move, ...]:
        """From torch's weights to the layer's, and from PEFT's factors to Flax's."""
        return (*TURNED, Stack(0, len(self.factors))) if self.is_stack else TURNED


def factor_entries(layer: AdaptedLayer, targets: tuple[str, str], adapter: Adapter) -> list[Entry]:
    """Make the entries from PEFT's factors to Flax's.

    Args:
        layer: the layer that they are kept beside.
        targets: the paths of A and B.
        adapter: the factors' adapter.
    """
    downs, ups = (tuple(getattr(each, which) for each in layer.factors) for which in ("down", "up"))
    return [
        Entry(names, (target,), layer.moves, LORA, tuple(adapter.tensors.tensors[name].shape for name in names))
        for names, target in zip((downs, ups), targets, strict=True)
    ]


def adapted_layers(mapping: Mapping, adapter: Adapter, flax: Guide) -> dict[str, AdaptedLayer]:
    """Return each layer of the Flax model that an adapter covers, by path.

    Args:
        mapping: from torch's keys to Flax's paths, for the model without its adapter.
        adapter: its adapter.
        flax: the model without its adapter.

    Raises:
        WeightsMismatch: modules that are not linear layers there, stacks whose layers are adapted differently; all of
            them.
    """
    by_weight = {factors.weight: factors for factors in adapter.factors}
    homes = {source: entry for entry in mapping.entries for source in entry.sources}
    wrong = [
        f"{factors.path}: the model has no place for {factors.weight}{nearest(factors.weight, homes)}"
        for factors in adapter.factors
        if factors.weight not in homes
    ]
    layers: dict[str, AdaptedLayer] = {}
    for entry in mapping.entries:
        factors = tuple(by_weight[source] for source in entry.sources if source in by_weight)
        if not factors:
            continue
        path = entry.targets[0].rpartition(".")[0]
        layer = AdaptedLayer(factors, is_stack=any(isinstance(move, Stack) for move in entry.moves))
        why = _obstacle(entry, path, layer, flax)
        if why is None:
            layers[path] = layer
        else:
            wrong.append(f"{', '.join(each.path for each in factors)} → {', '.join(entry.targets)}: {why}")
    if wrong:
        raise WeightsMismatch(
            "an adapter can only be kept beside nnx.Linear, whose weight is torch's, or a stack of torch's that are "
            "adapted alike; merged it goes into any layer (merge=True):\n  " + "\n  ".join(sorted(wrong))
        )
    return layers


def _obstacle(entry: Entry, path: str, layer: AdaptedLayer, flax: Guide) -> str | None:
    """Why an adapter cannot be kept beside a layer; None if it can."""
    kind = flax.by_path[path].kind if path in flax.by_path else "nothing known"
    is_linear = path in flax.by_path and any(pair.flax == "flax.nnx.Linear" for pair in flax.by_path[path].pairs)
    if not is_linear or entry.targets != (joined(path, "kernel"),):
        return kind
    if len(layer.factors) < len(entry.sources):
        return "only some of its layers are adapted"
    if entry.moves != layer.moves:
        return f"{kind} stores it differently ({', '.join(map(str, entry.moves))})"
    if len({(each.rank, each.scaling) for each in layer.factors}) > 1:
        return "its layers have different ranks or scalings"
    return None
