"""The result of one forward and backward pass, for either side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeVar

from port.parity.sides.calls import Arrays, RecordedCall

Cotangents = Callable[[Arrays], Arrays]
"""Outputs → the cotangent of each floating output."""

OUTPUTS, GRADIENTS, INPUT_GRADIENTS, BUFFERS = "outputs", "gradients", "gradients of the inputs", "buffers"
"""The kinds of compared tensors."""
COTANGENTS = "gradients of the outputs"
"""Gradients are computed from these: they count among a gradient's inputs."""

LET_GO = "gradients that were let go"
"""If gradients are taken in parts: the largest magnitude of each that was not kept, as an input of the others."""

NO_NUMBERS = "the outputs hold no numbers, and any two models agree on that; pass inputs for which they hold some"
"""Why models whose outputs are empty in every run cannot be judged."""
NO_NUMBERS_IN = "the outputs in {} hold no numbers"
"""A remark on one mode."""

Kinds = dict[str, Arrays]
"""The tensors of a run, by kind and by name."""


@dataclass
class Run:
    """One forward and backward pass of one side, in its names and layout.

    Attributes:
        outputs: the model's outputs by name.
        calls: the layers' calls in the order in which they finished, if they were recorded.
        gradients: gradients of the parameters, by the side's names.
        let_go: largest magnitude of each gradient that was not kept, as gradients are taken in parts.
        input_gradients: gradients of the floating inputs, by name.
        cotangents: the cotangents pulled back, by output name.
        buffers: buffers, and parameters that are not trained, after the pass, by the side's names.
        trained: whether each parameter is trained, by the side's names.
        no_gradient: why there are no gradients; empty if there are.
        refused_inputs: why the inputs have no gradients, if the module does not accept inputs that require them.
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
        """Return the run's tensors by kind and by name, as a control takes them."""
        return {
            OUTPUTS: self.outputs,
            GRADIENTS: self.gradients,
            LET_GO: self.let_go,
            INPUT_GRADIENTS: self.input_gradients,
            COTANGENTS: self.cotangents,
            BUFFERS: self.buffers,
        }


def are_empty(outputs: Arrays) -> bool:
    """Whether there are outputs, and none of them holds a number."""
    return bool(outputs) and not any(array.size for array in outputs.values())


def is_gradient(kind: str) -> bool:
    """Whether tensors of a kind are gradients."""
    return kind in (GRADIENTS, LET_GO, INPUT_GRADIENTS, COTANGENTS)


T = TypeVar("T")


def numbered(word: str, leaves: Iterable[T]) -> dict[str, T]:
    """Name tensors or arrays by a word and their index: ``output 0`` and so on."""
    return {f"{word} {number}": leaf for number, leaf in enumerate(leaves)}
