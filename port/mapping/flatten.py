"""Finds linear layers that may follow a flatten of spatial features, which no module tree shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from port.mapping.entry import Entry
from port.mapping.guide import Guide
from port.moves import Fold

_KEEP = ("torch.nn.Linear", "torch.nn.PReLU", "torch.nn.LayerNorm", "torch.nn.RMSNorm")
"""Layers with parameters that keep features in place. Others (recurrent ones, attention, embeddings) produce features
of their own, whose order does not depend on a flatten any more."""


@dataclass(frozen=True)
class Suspect:
    """A linear layer whose inputs may be flattened features, which Flax orders differently (channels last).

    Attributes:
        path: the linear layer, in torch's naming.
        inputs: its number of inputs.
        behind: the spatial layer before it.
        channels: that layer's number of output channels.
    """

    path: str
    inputs: int
    behind: str
    channels: int

    def __str__(self) -> str:
        area = self.inputs // self.channels
        side = round(area**0.5)
        shape = f"{self.channels},{side},{side}" if side * side == area else f"{self.channels},HEIGHT,WIDTH"
        return (
            f"{self.path} takes {self.inputs} = {self.channels} × {area} features and comes after {self.behind} "
            f"({self.channels} channels). If the features are flattened between them, Flax flattens them in another "
            f"order (channels last): fold that into the weights with --fold {self.path}={shape}"
        )


def suspects(entries: Iterable[Entry], guide: Guide) -> list[Suspect]:
    """List linear layers whose inputs are a multiple of the channels of the spatial layer before them, and not folded.

    Args:
        entries: from torch to Flax, in torch's order.
        guide: of either side, with its layers.
    """
    found: list[Suspect] = []
    spatial: tuple[str, int] | None = None
    pooled = _behind_pools(guide)
    for entry in entries:
        names = entry.sources if guide.side == "torch" else entry.targets
        layer = guide.owner(names[0])
        if layer is None or not layer.pairs or entry.shapes is None:
            continue
        key, shape = entry.sources[0], entry.shapes[0]
        path, _, name = key.rpartition(".")
        if layer.pairs[0].channels is not None and name in ("weight", "bias") and shape:
            # A transposed convolution's weight is (in, out / groups, …): its bias, if any, comes right after it.
            spatial = path, shape[0]
        elif layer.pairs[0].torch == "torch.nn.Linear" and name == "weight" and len(shape) == 2:
            inputs = shape[1]
            unfolded = not any(isinstance(move, Fold) for move in entry.moves)
            if spatial is not None and pooled.get(spatial[0]) != pooled.get(path):
                spatial = None
            if spatial is not None and spatial[1] > 1 and inputs > spatial[1] and not inputs % spatial[1] and unfolded:
                found.append(Suspect(path, inputs, *spatial))
            spatial = None
        elif layer.pairs[0].channels is None and layer.pairs[0].torch not in _KEEP:
            spatial = None
    return found


def _behind_pools(guide: Guide) -> dict[str, int]:
    """For each torch layer, how many layers before it leave one number per channel, which has no order to change."""
    count, counts = 0, {}
    for layer in guide.layers if guide.side == "torch" else ():
        count += layer.pools_all
        counts[layer.path] = count
    return counts
