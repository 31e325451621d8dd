"""Compare two runs layer by layer: every layer call, and each layer alone on the reference's input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from port.judging import Limits
from port.mapping import Mapping
from port.parity.compare.distance import difference
from port.parity.compare.findings import LayerRow
from port.parity.compare.gradients import gradients_in_torchs
from port.parity.compare.layer_matching import Matched
from port.parity.sides.calls import Arrays, RecordedCall, is_floating, largest
from port.parity.sides.flax_side import FlaxSide
from port.parity.sides.inputs import InputLayout, Inputs
from port.parity.sides.run import Run
from port.parity.sides.structure import leaves, rebuilt
from port.parity.sides.torch_side import TorchSide


@dataclass(frozen=True)
class LayerPairing:
    """Compares the layers of two runs.

    Attributes:
        matched: torch's path → the layer on both sides.
        layout: the layout of the model's inputs.
        limits: the largest allowed differences.
        gradients: torch's key → the difference of that parameter's gradient in the whole model.
        largest: the largest gradient of any parameter: the scale for gradients close to zero.
        is_packed: whether torch's model packs sequences: see `packs`.
    """

    matched: dict[str, Matched]
    layout: InputLayout
    limits: Limits
    gradients: dict[str, float]
    largest: float = 0.0
    is_packed: bool = False

    def rows(self, torch: Run, flax: Run) -> list[tuple[LayerRow, RecordedCall, RecordedCall]]:
        """All layer calls made by both sides, in torch's order."""
        theirs = {call.key: call for call in flax.calls}
        rows = []
        for call in torch.calls:
            match = self.matched.get(call.path)
            twin = theirs.get(f"{match.flax.path}#{call.number}") if match is not None else None
            if match is not None and twin is not None:
                rows.append((self.row(match, call, twin), call, twin))
        return rows

    def row(self, match: Matched, torch: RecordedCall, flax: RecordedCall) -> LayerRow:
        """Compare one call of one layer on both sides."""
        input_difference = self._compare(match, _data(torch.inputs), _data(flax.inputs), is_input=True)
        output_difference = self._compare(
            match, torch.outputs, flax.outputs, scale=self.limits.share * largest(_data(torch.inputs))
        )
        arriving = self._compare(match, _filled(torch), _filled(flax), scale=self._scale)
        keys = [key for entry in match.entries for key in entry.sources if key in self.gradients]
        return LayerRow(
            str(torch),
            str(flax),
            match.torch.kind,
            match.flax.kind,
            input=input_difference,
            output=output_difference,
            arriving=arriving,
            gradient=max((self.gradients[key] for key in keys), default=None),
            reordered=self._reordered(match, torch, flax),
            notes=match.pair.notes if match.pair is not None else (),
        )

    @property
    def _scale(self) -> float:
        return self.largest * self.limits.share

    def _compare(
        self, match: Matched, torch: Arrays, flax: Arrays, *, is_input: bool = False, scale: float = 0.0
    ) -> float | None:
        pairs = list(zip(torch.items(), flax.values(), strict=False))
        if not pairs:
            return None
        found = []
        for place, ((_, a), b) in enumerate(pairs[:1] if len(torch) != len(flax) else pairs):
            b = match.in_torchs(b, a.shape, self.layout, place=place if is_input else None)
            if self.is_packed and a.ndim != b.ndim and a.size != b.size:
                continue  # a packed sequence has rows only for actual steps, Flax's padded one for all
            apart = difference(a, b, scale=scale)
            # A flattened input is in another order: for a module without weights that is no fault.
            if apart > self.limits.forward and not match.entries and _same_numbers(a, b, self.limits.forward):
                apart = 0.0
            found.append(apart)
        return max(found, default=None)

    def _reordered(self, match: Matched, torch: RecordedCall, flax: RecordedCall) -> bool:
        theirs, ours = list(_data(torch.inputs).values()), list(_data(flax.inputs).values())
        if not theirs or not ours or match.fold is not None:
            return False
        a, b = theirs[0], match.in_torchs(ours[0], theirs[0].shape, self.layout, place=0)
        return difference(a, b) > self.limits.forward and _same_numbers(a, b, self.limits.forward)

    def alone(
        self,
        match: Matched,
        torch: RecordedCall,
        flax: RecordedCall,
        sides: tuple[TorchSide, FlaxSide],
        *,
        training: bool,
    ) -> tuple[float | None, float | None]:
        """Run Flax's layer on torch's input and torch's arriving gradient.

        Returns:
            the difference of its output, and of its gradients; None for what cannot be compared.
        """
        inputs = self._with_torchs_numbers(match, torch, flax)
        if inputs is None or match.pair is None:
            return None, None
        wanted = {
            name: match.in_flaxs(_filled(torch)[key], self.layout, place=None)
            for name, key in zip(_floating(flax.outputs), _filled(torch), strict=False)
        }
        if any(array.shape != flax.outputs[name].shape for name, array in wanted.items()):
            wanted = {}
        try:
            theirs = sides[0].run_layer(torch, training=training)
            ours = sides[1].run_layer(flax, inputs, wanted, training=training)
        except Exception:
            # A layer may need what only the whole model provides (a bound scope, a stream of random numbers).
            return None, None
        into = self.limits.share * largest(_data(torch.inputs))
        output = self._compare(match, _floating(theirs.outputs), ours.outputs, scale=into)
        if not wanted:
            return output, None
        carried = gradients_in_torchs(Mapping(match.entries), ours.gradients)
        own = {f"{match.torch.path}.{name}": array for name, array in theirs.gradients.items()}
        apart = [difference(own[key], carried[key], scale=self._scale) for key in own if key in carried]
        of_inputs = self._compare(match, theirs.input_gradients, ours.input_gradients, is_input=True, scale=self._scale)
        return output, max([*apart, *([] if of_inputs is None else [of_inputs])], default=None)

    def _with_torchs_numbers(self, match: Matched, torch: RecordedCall, flax: RecordedCall) -> Inputs | None:
        """The Flax call's arguments filled with torch's numbers; None if they do not fit."""
        tree = (*flax.args, flax.kwargs)
        ours, theirs = _data(flax.inputs), list(_data(torch.inputs).values())
        if len(ours) != len(theirs):
            return None
        moved = [match.in_flaxs(array, self.layout, place=place) for place, array in enumerate(theirs)]
        if any(a.shape != b.shape for a, b in zip(moved, ours.values(), strict=True)):
            return None
        replaced = {name: array.astype(ours[name].dtype) for name, array in zip(ours, moved, strict=True)}
        *args, kwargs = rebuilt(tree, lambda name, leaf: replaced.get(name, leaf))
        assert set(replaced) <= set(leaves(tree))
        return Inputs(tuple(args), kwargs)


def packs(calls: Iterable[RecordedCall]) -> bool:
    """Whether a torch layer takes or returns a packed sequence, `torch.nn.utils.rnn.PackedSequence`."""
    named = (name for call in calls for name in leaves((*call.args, call.kwargs, call.output)))
    return any(name.rpartition(".")[2] == "batch_sizes" for name in named)


def _data(arrays: Arrays) -> Arrays:
    """Drop masks, which have opposite meanings on the two sides."""
    return {name: array for name, array in arrays.items() if array.dtype != bool}


def _floating(arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if is_floating(array)}


def _filled(call: RecordedCall) -> Arrays:
    """The gradient that arrived at each floating-point output; zeros if none did."""
    return {name: call.cotangents.get(name, np.zeros(array.shape)) for name, array in _floating(call.outputs).items()}


def _same_numbers(a: np.ndarray, b: np.ndarray, limit: float) -> bool:
    """Whether each sample has the same numbers in another order."""
    return a.shape == b.shape and a.ndim == 2 and a.size > 0 and difference(np.sort(a), np.sort(b)) <= limit
