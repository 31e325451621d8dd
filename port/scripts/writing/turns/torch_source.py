"""Write each turn as a torch module: the computation from a batch to the losses that the turn differentiates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from port.scripts.writing.loss_source import varying_numbers
from port.scripts.writing.path_writer import PathWriter, Varying
from port.scripts.writing.turns.order import Turn
from port.scripts.writing.turns.paths import CarriedTensor, TurnPath


@dataclass(frozen=True)
class TurnSource:
    """A turn's torch module.

    Attributes:
        name: the class's name.
        inputs: the names of its inputs: parts of a batch, values that the script makes in its loop, earlier outputs.
        descriptions: where each input comes from, as described in the observation.
        modules: names of the script's modules that its constructor takes.
        losses: the script's names for the losses, its first outputs.
        gives: names of its outputs after the losses, which later turns take.
        takes: the inputs that come from an earlier turn, with that turn and the index among its outputs.
        again: the models that an earlier turn has called with the same arguments.
        varying: numbers that are inputs.
        model_inputs: model → the input that it is called with, if it is the only one.
    """

    name: str
    inputs: tuple[str, ...]
    descriptions: dict[str, dict[str, Any]]
    modules: tuple[str, ...]
    losses: tuple[str, ...]
    gives: tuple[str, ...]
    takes: dict[str, tuple[int, int]]
    again: frozenset[str]
    varying: Varying
    model_inputs: dict[str, str]


def turn_sources(
    turns: Sequence[Turn], steps: Sequence[Sequence[TurnPath]], script: str
) -> tuple[str, list[TurnSource]]:
    """The text of a file with a class for each turn, and the description of each class.

    Args:
        turns: the script's turns.
        steps: the turns' paths of each watched step.
        script: the script's name.

    Raises:
        UsageError: an argument of a call has no source form.
    """
    wanted = [one for path in steps[0] for one in path.carried]
    places: dict[CarriedTensor, int] = {}  # an earlier turn's value → its index among that turn's outputs
    classes, sources = [], []
    for number, path in enumerate(steps[0]):
        varying = varying_numbers([step[number].path for step in steps])
        returned = list(dict.fromkeys(one for one in wanted if one.turn == number))
        text, source = _turn(number, turns[number], path, returned, places, varying, script)
        places.update({one: len(source.losses) + place for place, one in enumerate(returned)})
        classes.append(text)
        sources.append(source)
    head = f'"""The computation of {script}, turn by turn, from a batch to its losses: written by port script."""'
    imports = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F"
    return "\n\n".join([head, imports, *("\n" + one for one in classes)]) + "\n", sources


def turn_inputs(path: TurnPath, varying: Varying) -> dict[str, torch.Tensor]:
    """The inputs of a turn's module in a step, except those that earlier turns return."""
    writer = PathWriter(path.path, varying, path.losses)
    writer.statements()
    return writer.inputs


def _turn(
    number: int,
    turn: Turn,
    path: TurnPath,
    returned: Sequence[CarriedTensor],
    places: Mapping[CarriedTensor, int],
    varying: Varying,
    script: str,
) -> tuple[str, TurnSource]:
    writer = PathWriter(path.path, varying, (*path.losses, *(one.call for one in returned)))
    lines = writer.statements()
    losses = tuple(writer.name(call) for call in path.losses)
    gives = tuple(writer.part(one.call, one.output) for one in returned)
    descriptions = {name: writer.descriptions.get(name, {}) for name in writer.inputs}
    name = f"Turn{number + 1}"
    modules = tuple(writer.modules)
    text = "\n".join(
        [
            f"class {name}(nn.Module):",
            f'    """The computation of {script} before {" and ".join(turn.trains)} steps."""',
            "",
            f"    def __init__(self, {', '.join(modules)}):",
            "        super().__init__()",
            *(f"        self.{one} = {one}" for one in modules),
            "",
            f"    def forward(self, {', '.join(writer.inputs)}):",
            *(f"        {line}" for line in lines),
            f"        return {', '.join((*losses, *gives))}",
        ]
    )
    source = TurnSource(
        name,
        tuple(writer.inputs),
        descriptions,
        modules,
        losses,
        tuple(one.replace("[", "_").replace("]", "").replace("'", "") for one in gives),
        {
            one: (said["turn"], places[CarriedTensor(said["turn"], said["call"], said.get("output"))])
            for one, said in descriptions.items()
            if "turn" in said
        },
        path.again,
        varying,
        _model_inputs(writer, lines),
    )
    return text, source


def _model_inputs(writer: PathWriter, lines: Sequence[str]) -> dict[str, str]:
    """The inputs that models are called with: ``fake = self.netG(noise)``."""
    found = {}
    for call, line in zip(writer.calls, lines, strict=True):
        for name in writer.inputs:
            if call.kind == "module" and line.endswith(f" = self.{call.name}({name})"):
                found[call.name] = name
    return found
