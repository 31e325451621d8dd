"""What one run of one side gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

OUTPUTS, GRADIENTS, INPUT_GRADIENTS, BUFFERS = "outputs", "gradients", "gradients of the inputs", "buffers"
"""The kinds of things that are compared."""


@dataclass
class Run:
    """A forward and a backward pass of one side, in arrays.

    Attributes:
        outputs: in torch's layout and in the order of torch's leaves.
        cotangents: what the outputs were multiplied with before they were summed; None for one without a gradient.
        gradients: of the parameters, by the side's own names, in its own layout.
        input_gradients: of the inputs, ``"input 0"`` and so on, in torch's layout.
        buffers: what they, and frozen parameters, hold afterwards, by the side's own names, in its own layout.
        trained: every parameter of the side's, by its own names, and whether it is trained.
        no_gradient: why there is no gradient to compare; empty if there is.
        silenced: layers whose dropout was off.
    """

    outputs: list[np.ndarray]
    cotangents: list[np.ndarray | None]
    gradients: dict[str, np.ndarray]
    input_gradients: dict[str, np.ndarray]
    buffers: dict[str, np.ndarray]
    trained: dict[str, bool]
    no_gradient: str = ""
    silenced: tuple[str, ...] = ()

    @property
    def kinds(self) -> dict[str, dict[str, np.ndarray]]:
        """All of it by kind and by name, as a control takes it."""
        cotangents = [array for array in self.cotangents if array is not None]
        return {
            OUTPUTS: {f"output {number}": array for number, array in enumerate(self.outputs)},
            GRADIENTS: self.gradients,
            INPUT_GRADIENTS: self.input_gradients,
            "gradients of the outputs": {f"output {number}": array for number, array in enumerate(cotangents)},
            BUFFERS: self.buffers,
        }


class OtherShape(Exception):
    """An output of the written module has not the shape of the original's."""

    def __init__(self, number: int, ours: tuple[int, ...], theirs: tuple[int, ...]) -> None:
        super().__init__(f"output {number} has shape {ours}, and the original's has {theirs}")
