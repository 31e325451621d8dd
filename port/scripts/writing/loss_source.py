"""Write the path from a batch to its loss as a torch module: the script's calls, under the script's names.

Whatever is computed from a batch alone is part of it. Whatever comes from elsewhere (a slice of a tensor that the
script holds, numbers that it draws) is an input, like the batch's tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from port.scripts.writing.capture import LossPath, path_tensors
from port.scripts.writing.followed import outside
from port.scripts.writing.number_names import common, numbers_in
from port.scripts.writing.path_writer import MOVES, NOTHING, PathWriter, Said, Varying
from port.scripts.writing.said_in_source import part_of

CLASS = "FromBatchToLoss"


@dataclass(frozen=True)
class LossSource:
    """A torch module's source, and its inputs.

    Attributes:
        text: the source.
        inputs: the names of its inputs.
        modules: the names of the script's modules that its constructor takes.
        descriptions: where each input comes from, as described in the observation.
        states: the inputs that are carried over; the module returns them after the loss, in this order.
    """

    text: str
    inputs: tuple[str, ...]
    modules: tuple[str, ...]
    descriptions: tuple[dict[str, Any], ...]
    states: tuple[str, ...] = ()


def loss_source(path: LossPath, script: str, varying: Varying = frozenset(), said: Said = NOTHING) -> LossSource:
    """Write the module's source.

    Args:
        path: the path to a loss.
        varying: numbers that are inputs, from `varying_numbers`.
        script: the script's name, for the docstring.
        said: the script's names for them, from `names_of_numbers`.

    Raises:
        UsageError: an argument of a call has no source form.
    """
    writer = PathWriter(path, varying, said=said)
    lines = writer.statements()
    inputs, modules = tuple(writer.inputs), tuple(writer.modules)
    left = [part_of(writer.name(call), output) for call, output in path.states.values()]
    constructor = [f"        self.{name} = {name}" for name in modules]
    text = "\n".join(
        [
            f'"""The path from a batch to its loss in {script}: written by port script."""',
            "",
            "import torch",
            "from torch import nn",
            "from torch.nn import functional as F",
            "",
            "",
            f"class {CLASS}(nn.Module):",
            f'    """The computation of {script} from a batch to its loss."""',
            "",
            f"    def __init__(self, {', '.join(modules)}):",
            "        super().__init__()",
            *constructor,
            "",
            f"    def forward(self, {', '.join(inputs)}):",
            *[f"        {line}" for line in lines],
            f"        return {', '.join([writer.part(writer.calls[-1].number, _output(path)), *left])}",
            "",
        ]
    )
    return LossSource(
        text, inputs, modules, tuple(writer.descriptions.get(name, {}) for name in inputs), tuple(path.states)
    )


def _output(path: LossPath) -> str | None:
    """Which output of the last written call is the loss, as in ``logits, loss = model(x, y)``."""
    output = path.output
    for call in reversed(path.calls):
        if call.name not in MOVES:
            break
        output = next((tensor.description.get("output") for tensor in path_tensors(call.live)), None)
    return output


def inputs_of(path: LossPath, varying: Varying = frozenset(), said: Said = NOTHING) -> dict[str, torch.Tensor]:
    """The module's inputs for a path of the same kind."""
    writer = PathWriter(path, varying, said=said)
    writer.statements()
    return writer.inputs


def varying_numbers(paths: Sequence[LossPath]) -> Varying:
    """The arguments that are numbers and differ between paths: for each, its call's index and its index there."""
    beyond = outside(paths[0].calls, paths[0].lengths)
    found = set()
    for place, calls in enumerate(zip(*(path.calls for path in paths), strict=True)):
        rows = [numbers_in(call.live) for call in calls]
        for number, values in enumerate(zip(*rows, strict=False)):
            if len(set(values)) > 1 and calls[0].number not in beyond:
                found.add((place, number))
    return frozenset(found)


def names_of_numbers(paths: Sequence[LossPath], varying: Varying) -> dict[tuple[int, int], str]:
    """The script's names for the varying numbers, by index, if they have one expression in all paths."""
    found = {}
    for place, number in varying:
        rows = [path.numbers.get(path.calls[place].number, {}) for path in paths]
        if (said := common(rows, number)) is not None:
            found[place, number] = said
    return found
