"""Entries of a mapping from PEFT's factors to Flax's, which are the other way round."""

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
    """A linear layer of the Flax model's, and the adapter that is kept beside it.

    Attributes:
        factors: of the torch module whose weight it holds; of each of several, where it is a stack of them.
        is_stack: whether it is: its parameters have one axis more, the first.
    """

    factors: tuple[Factors, ...]
    is_stack: bool = False

    @property
    def moves(self) -> tuple[Move, ...]:
        """From torch's weights to the layer's, and from PEFT's factors to Flax's."""
        return (*TURNED, Stack(0, len(self.factors))) if self.is_stack else TURNED


def factor_entries(layer: AdaptedLayer, targets: tuple[str, str], adapter: Adapter) -> list[Entry]:
    """From PEFT's factors to Flax's.

    Args:
        layer: which they are kept beside.
        targets: the paths of A and B.
        adapter: whose they are.
    """
    downs, ups = (tuple(getattr(each, which) for each in layer.factors) for which in ("down", "up"))
    return [
        Entry(names, (target,), layer.moves, LORA, tuple(adapter.tensors.tensors[name].shape for name in names))
        for names, target in zip((downs, ups), targets, strict=True)
    ]


def adapted_layers(mapping: Mapping, adapter: Adapter, flax: Guide) -> dict[str, AdaptedLayer]:
    """Each layer of the Flax model's that an adapter is of, by its path.

    Args:
        mapping: from torch's keys to Flax's paths, for the model without its adapter.
        adapter: of it.
        flax: the model without its adapter.

    Raises:
        WeightsMismatch: modules that are no linear layers there, stacks whose layers are adapted differently; all of
            them.
    """
    by_weight = {factors.weight: factors for factors in adapter.factors}
    homes = {source: entry for entry in mapping.entries for source in entry.sources}
    wrong = [
        f"{factors.path}: the model has no home for {factors.weight}{nearest(factors.weight, homes)}"
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
        why = _why_not(entry, path, layer, flax)
        if why is None:
            layers[path] = layer
        else:
            wrong.append(f"{', '.join(each.path for each in factors)} → {', '.join(entry.targets)}: {why}")
    if wrong:
        raise WeightsMismatch(
            "an adapter is kept beside nnx.Linear alone, whose weight is torch's, or a stack of torch's that are "
            "adapted alike; merged it goes into any layer (merge=True):\n  " + "\n  ".join(sorted(wrong))
        )
    return layers


def _why_not(entry: Entry, path: str, layer: AdaptedLayer, flax: Guide) -> str | None:
    """Why an adapter is not kept beside a layer; None where it is."""
    kind = flax.by_path[path].kind if path in flax.by_path else "nothing known"
    is_linear = path in flax.by_path and any(pair.flax == "flax.nnx.Linear" for pair in flax.by_path[path].pairs)
    if not is_linear or entry.targets != (joined(path, "kernel"),):
        return kind
    if len(layer.factors) < len(entry.sources):
        return "some of its layers alone are adapted"
    if entry.moves != layer.moves:
        return f"{kind} holds it otherwise ({', '.join(map(str, entry.moves))})"
    if len({(each.rank, each.scaling) for each in layer.factors}) > 1:
        return "its layers are of several ranks or scalings"
    return None
