"""The path from a batch to its loss, as the source of a torch module: what the script calls, under its own names.

What is computed from a batch alone is part of it. What comes from elsewhere (a slice of a tensor that the script
holds, numbers that it draws) is an input, as a batch's own tensors are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from port.scripts.writing.capture import LossPath, given_in
from port.scripts.writing.followed import outside
from port.scripts.writing.number_names import common, numbers_in
from port.scripts.writing.path_writer import MOVES, NOTHING, PathWriter, Said, Varying
from port.scripts.writing.said_in_source import part_of

CLASS = "FromBatchToLoss"


@dataclass(frozen=True)
class LossSource:
    """A torch module's source, and what to give it.

    Attributes:
        text: the source.
        inputs: the names of its inputs.
        modules: the names of the script's modules that its constructor takes.
        told: where each input is from, as the account says it.
        states: those of the inputs that are carried over; in their order they are what it gives behind the loss.
    """

    text: str
    inputs: tuple[str, ...]
    modules: tuple[str, ...]
    told: tuple[dict[str, Any], ...]
    states: tuple[str, ...] = ()


def loss_source(path: LossPath, script: str, varying: Varying = frozenset(), said: Said = NOTHING) -> LossSource:
    """The source of the module.

    Args:
        path: of a loss.
        varying: numbers that are inputs, as `varying_numbers` gives them.
        script: the script's name, for the docstring.
        said: what the script calls them, as `names_of_numbers` gives it.

    Raises:
        UsageError: a call has an argument that no source says.
    """
    writer = PathWriter(path, varying, said=said)
    lines = writer.statements()
    inputs, modules = tuple(writer.inputs), tuple(writer.modules)
    left = [part_of(writer.name(call), output) for call, output in path.states.values()]
    constructor = [f"        self.{name} = {name}" for name in modules]
    text = "\n".join(
        [
            f'"""The path from a batch to its loss, as {script} has it: written by port script."""',
            "",
            "import torch",
            "from torch import nn",
            "from torch.nn import functional as F",
            "",
            "",
            f"class {CLASS}(nn.Module):",
            f'    """What {script} computes of a batch, up to its loss."""',
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
    return LossSource(text, inputs, modules, tuple(writer.told.get(name, {}) for name in inputs), tuple(path.states))


def _output(path: LossPath) -> str | None:
    """Which output of the last call that is written is the loss, as in ``logits, loss = model(x, y)``."""
    output = path.output
    for call in reversed(path.calls):
        if call.name not in MOVES:
            break
        output = next((given.told.get("output") for given in given_in(call.live)), None)
    return output


def inputs_of(path: LossPath, varying: Varying = frozenset(), said: Said = NOTHING) -> dict[str, torch.Tensor]:
    """What the module is given for a path of the same kind."""
    writer = PathWriter(path, varying, said=said)
    writer.statements()
    return writer.inputs


def varying_numbers(paths: Sequence[LossPath]) -> Varying:
    """Which numbers among the arguments are not the same in all paths: for each, its call's place and its own there."""
    beyond = outside(paths[0].calls, paths[0].lengths)
    found = set()
    for place, calls in enumerate(zip(*(path.calls for path in paths), strict=True)):
        rows = [numbers_in(call.live) for call in calls]
        for number, values in enumerate(zip(*rows, strict=False)):
            if len(set(values)) > 1 and calls[0].number not in beyond:
                found.add((place, number))
    return frozenset(found)


def names_of_numbers(paths: Sequence[LossPath], varying: Varying) -> dict[tuple[int, int], str]:
    """What the script calls the numbers that vary, by their places; those that have an expression in all paths."""
    found = {}
    for place, number in varying:
        rows = [path.numbers.get(path.calls[place].number, {}) for path in paths]
        if (said := common(rows, number)) is not None:
            found[place, number] = said
    return found
