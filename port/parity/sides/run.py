"""What one forward and backward pass of one side gives, whichever side it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeVar

from port.parity.sides.calls import Arrays, RecordedCall

Cotangents = Callable[[Arrays], Arrays]
"""From the outputs to what is to be pulled back through each floating one."""

OUTPUTS, GRADIENTS, INPUT_GRADIENTS, BUFFERS = "outputs", "gradients", "gradients of the inputs", "buffers"
"""The kinds of things that are compared."""
COTANGENTS = "gradients of the outputs"
"""What gradients are made from: they count as something that went into one."""

LET_GO = "gradients that were let go"
"""Where gradients are taken in parts, the largest magnitude of each that was not kept: it went into the others."""

Kinds = dict[str, Arrays]
"""What a run gives, by kind and by name."""


@dataclass
class Run:
    """One forward and backward pass of one side, in its own names and layout.

    Attributes:
        outputs: the model's outputs by name.
        calls: the layers' calls in the order in which they finished, where they were watched.
        gradients: of the parameters, by the side's own names.
        let_go: of the parameters whose gradients were not kept, since they are taken in parts: the largest magnitude.
        input_gradients: of the floating inputs, by name.
        cotangents: what was pulled back, by the output's name.
        buffers: what they, and parameters that are not trained, hold afterwards, by the side's own names.
        trained: every parameter by the side's own names, and whether it is trained.
        no_gradient: why there is no gradient to compare; empty if there is.
        refused_inputs: why the inputs have no gradient, where the module takes none that need one; empty if they have.
        silenced: layers whose dropout was off.
    """

    outputs: Arrays
    calls: list[RecordedCall] = field(default_factory=list)
    _: KW_ONLY
    gradients: Arrays = field(default_factory=dict)
    let_go: Arrays = field(default_factory=dict)
    input_gradients: Arrays = field(default_factory=dict)
    cotangents: Arrays = field(default_factory=dict)
    buffers: Arrays = field(default_factory=dict)
    trained: dict[str, bool] = field(default_factory=dict)
    no_gradient: str = ""
    refused_inputs: str = ""
    silenced: tuple[str, ...] = ()

    @property
    def kinds(self) -> Kinds:
        """All of it by kind and by name, as a control takes it."""
        return {
            OUTPUTS: self.outputs,
            GRADIENTS: self.gradients,
            LET_GO: self.let_go,
            INPUT_GRADIENTS: self.input_gradients,
            COTANGENTS: self.cotangents,
            BUFFERS: self.buffers,
        }


def is_gradient(kind: str) -> bool:
    """Whether things of a kind are gradients."""
    return kind in (GRADIENTS, LET_GO, INPUT_GRADIENTS, COTANGENTS)


T = TypeVar("T")


def numbered(word: str, leaves: Iterable[T]) -> dict[str, T]:
    """Tensors or arrays by a word and their place: ``output 0`` and so on."""
    return {f"{word} {number}": leaf for number, leaf in enumerate(leaves)}
