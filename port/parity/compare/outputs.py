"""Match the two models' outputs, and convert between their layouts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from port.parity.sides.calls import Arrays, is_inexact
from port.parity.sides.inputs import InputLayout
from port.parity.sides.run import Cotangents


@dataclass(frozen=True)
class Outputs:
    """torch's outputs and Flax's, matched.

    Attributes:
        names: torch's name → Flax's.
        layout: the inputs' layout.
        shapes: torch's shapes, by torch's names.
        why: why they cannot be matched; "" if they are.
    """

    names: dict[str, str]
    layout: InputLayout
    shapes: dict[str, tuple[int, ...]]
    why: str = ""

    def in_torchs(self, flax: Arrays) -> Arrays:
        """Flax's outputs under torch's names, in torch's layout."""
        return {name: self.layout.in_torchs(flax[path], self.shapes[name]) for name, path in self.names.items()}

    def cotangents(self, torch: Arrays) -> Cotangents:
        """The cotangents of Flax's outputs: torch's cotangents in Flax's layout."""

        def in_flaxs(flax: Arrays) -> Arrays:
            moved = {}
            for name, path in self.names.items():
                if name in torch and is_inexact(flax[path]):
                    array, back = flax[path], self.layout.in_torchs(flax[path], self.shapes[name])
                    if back.shape == self.shapes[name]:
                        same = back is array
                        moved[path] = torch[name] if same else np.ascontiguousarray(self.layout.to_last(torch[name]))
            return {path: array.astype(flax[path].dtype) for path, array in moved.items()}

        return in_flaxs


def match_outputs(torch: Arrays, flax: Arrays, layout: InputLayout) -> Outputs:
    """Match outputs by name if the names are the same, else in order.

    Args:
        torch: torch's outputs by name.
        flax: Flax's outputs by name.
        layout: the inputs' layout.
    """
    shapes = {name: array.shape for name, array in torch.items()}
    if set(torch) == set(flax):
        return Outputs({name: name for name in torch}, layout, shapes)
    if len(torch) == len(flax):
        return Outputs(dict(zip(torch, flax, strict=True)), layout, shapes)
    why = f"torch gives {len(torch)} outputs ({_listed(torch)}), Flax {len(flax)} ({_listed(flax)})"
    return Outputs({}, layout, shapes, why)


def _listed(arrays: Arrays) -> str:
    return ", ".join(f"{name or 'the output'} {array.shape}" for name, array in arrays.items()) or "none"
