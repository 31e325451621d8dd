"""Match torch layers with Flax layers, and convert their inputs and outputs between the two layouts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from port.mapping import TORCH_ONLY, Entry, Guide, Layer, Mapping
from port.mapping.names import normal_form
from port.moves import Fold
from port.pairs import LayerPair
from port.parity.sides.inputs import InputLayout


@dataclass(frozen=True)
class Matched:
    """One layer on both sides.

    Attributes:
        torch: torch's layer.
        flax: Flax's layer.
        pair: the pair for both; None for user-defined modules.
        entries: the mapping's entries for the layer's own tensors.
    """

    torch: Layer
    flax: Layer
    pair: LayerPair | None = None
    entries: tuple[Entry, ...] = ()

    @property
    def fold(self) -> Fold | None:
        """The fold in the layer's weight: its inputs come in another order in Flax."""
        moves = (move for entry in self.entries for move in entry.moves)
        return next((move for move in moves if isinstance(move, Fold)), None)

    def channel_axis(self, shape: tuple[int, ...], layout: InputLayout, *, place: int | None) -> int | None:
        """The axis of a torch array that Flax has last; None if both have the same layout.

        Args:
            shape: the torch array's shape.
            layout: the layout of the model's inputs.
            place: the index of the layer's input; None for an output.
        """
        if self.pair is not None and self.pair.channels is not None:
            channels, inputs = self.pair.channels, self.pair.channel_inputs
            has_it = self.pair.channel_outputs if place is None else inputs is None or place in inputs
            return channels % len(shape) if has_it and -len(shape) <= channels < len(shape) else None
        if self.entries:  # a layer with weights and no channel axis works on the last axis on both sides
            return None
        # Elementwise, or a user-defined module: like the model's inputs.
        return layout.axis if layout.moved and len(shape) == layout.rank else None

    def in_torchs(
        self, array: np.ndarray, like: tuple[int, ...], layout: InputLayout, *, place: int | None
    ) -> np.ndarray:
        """Convert a Flax array to torch's layout; ``like`` is the torch array's shape."""
        if array.ndim != len(like):
            # torch.nn.LSTM's states have a layer axis, which a hand-written LSTM's lack.
            ours, theirs = (shape[_leading_ones(shape) :] for shape in (array.shape, like))
            return array.reshape(like) if self.pair is None and ours == theirs else array
        axis = self.channel_axis(like, layout, place=place)
        if axis is not None:
            moved = np.moveaxis(array, -1, axis)
            # A user-defined module may have its channels anywhere: then the shape decides.
            return array if self.pair is None and moved.shape != like and array.shape == like else moved
        return self._unfolded(array) if place is not None else array

    def in_flaxs(self, array: np.ndarray, layout: InputLayout, *, place: int | None) -> np.ndarray:
        """Convert a torch array to Flax's layout."""
        axis = self.channel_axis(array.shape, layout, place=place)
        if axis is not None:
            return np.ascontiguousarray(np.moveaxis(array, axis, -1))
        if place is not None and self.fold is not None:
            return self._fold_of(array)((array,))[0]
        return array

    def _unfolded(self, array: np.ndarray) -> np.ndarray:
        return array if self.fold is None else self._fold_of(array).inverse()((array,))[0]

    def _fold_of(self, array: np.ndarray) -> Fold:
        assert self.fold is not None
        return replace(self.fold, axis=array.ndim - 1)


def _leading_ones(shape: tuple[int, ...]) -> int:
    return next((place for place, length in enumerate(shape) if length != 1), len(shape))


def match_layers(torch: Guide, flax: Guide, mapping: Mapping) -> dict[str, Matched]:
    """torch's path → the layer on both sides: layers with tensors are matched by the mapping, the others by path."""
    found: dict[str, Matched] = {}
    entries: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in mapping.entries:
        if entry.collection != TORCH_ONLY and (match := _owners(torch, flax, entry)) is not None:
            entries[match.torch.path, match.flax.path].append(entry)
            found.setdefault(match.torch.path, match)
    homes = [match.flax.path for match in found.values()]
    # Several torch layers that match one Flax layer are a stack, and run inside a scan.
    found = {path: match for path, match in found.items() if homes.count(match.flax.path) == 1}
    taken = {match.flax.path for match in found.values()}
    by_path = {normal_form(layer.path_elsewhere): layer for layer in reversed(flax.layers)}
    for layer in torch.layers:
        twin = by_path.get(normal_form(layer.path_elsewhere))
        if layer.path and twin is not None and layer.path not in found and twin.path not in taken:
            found[layer.path] = Matched(layer, twin, _common(layer, twin))
    return {
        path: replace(match, entries=tuple(entries.get((path, match.flax.path), ()))) for path, match in found.items()
    }


def _owners(torch: Guide, flax: Guide, entry: Entry) -> Matched | None:
    """The innermost layers around an entry's tensors that one pair covers."""
    for theirs in torch.around(entry.sources[:1] if entry.is_tied else entry.sources):
        for ours in flax.around(entry.targets[:1] if entry.is_tied else entry.targets):
            if theirs.path and (pair := _common(theirs, ours)) is not None:
                return Matched(theirs, ours, pair)
    return None


def _common(theirs: Layer, ours: Layer) -> LayerPair | None:
    return next((pair for pair in theirs.pairs if pair in ours.pairs), None)
