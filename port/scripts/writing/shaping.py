"""Options that shape a script's model: train.py hands them to the constructors of model.py, ``--hidden 256``.

Which arguments of a model's constructor they give stands in the script. At other values of them the original is
constructed, and what was written is compared with it, before they are free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from port.scripts.observation import Observation
from port.scripts.writing.capture import Copies
from port.scripts.writing.constructor_call import arguments_by_name, constructor_call
from port.scripts.writing.model_construction import ModelConstruction, construction_in
from port.scripts.writing.option_expressions import OptionExpression, OptionExpressions
from port.scripts.writing.other_shapes import OtherShapes

IN_TRAIN = frozenset({"Any", "Iterable", "Iterator", "NamedSharding", "PartitionSpec", "Path", "State"})
"""Names in train.py that no class of the model's may have."""


@dataclass(frozen=True)
class ShapingArgument:
    """An argument of a model's constructor that options give.

    Attributes:
        model: the script's name of the model.
        name: of the argument.
        expression: of the script's options.
        file: in which that stands.
    """

    model: str
    name: str
    expression: OptionExpression
    file: Path


@dataclass(frozen=True)
class Shaping:
    """How train.py constructs the model with its options.

    Attributes:
        arguments: that options give.
        construction: of the model, as model.py has it.
        options: the values of the script's options.
    """

    arguments: tuple[ShapingArgument, ...]
    construction: ModelConstruction
    options: Mapping[str, Any]

    def covered(self, file: Path) -> set[tuple[int, int]]:
        """The places in a file where these options are read."""
        return {place for one in self.arguments if one.file == file for place in one.expression.places}

    def without(self, kept: Collection[str]) -> Shaping | None:
        """With the arguments alone whose options are free; None where none is.

        Args:
            kept: options that keep their values.
        """
        free = tuple(one for one in self.arguments if not one.expression.options & {*kept})
        return Shaping(free, self.construction, self.options) if free else None

    @property
    def source(self) -> str:
        """The construction with a script's options, ``args``."""
        return self.construction.source({(one.model, one.name): one.expression.said({}) for one in self.arguments})

    @property
    def first(self) -> dict[str, Any]:
        """The options with which the first weights were drawn."""
        names = dict.fromkeys(name for one in self.arguments for name in sorted(one.expression.options))
        return {name: self.options[name] for name in names}


def shaping_of(
    observation: Observation,
    copies: Copies,
    models: Sequence[str],
    translation: Any,
    construct: Callable[[Mapping[str, Mapping[str, Any]]], nn.Module],
    folder: Path,
) -> Shaping | None:
    """Find them, and compare both sides at other values; None where no option shapes the model, or none can be free.

    Args:
        observation: of the script.
        copies: of its models.
        models: those that lead to the loss.
        translation: of the module from a batch to its loss.
        construct: what constructs that module, given the arguments of its models that are others.
        folder: that has train_step.py and model.py.
    """
    construction = construction_in((folder / "model.py").read_text("utf-8"))
    if construction is None or translation.without_start or IN_TRAIN & {*construction.classes}:
        return None
    found = [
        one
        for name in models
        for one in _arguments(observation, copies, name)
        if one.name in construction.takes.get(name, ())
    ]
    if not found or not _are_as_constructed(copies, models):
        return None
    options = {one["name"]: one["given"] for one in observation.options}
    found = OtherShapes(options, translation, construct, folder, construction).proved(found)
    return Shaping(tuple(found), construction, options) if found else None


def _arguments(observation: Observation, copies: Copies, name: str) -> list[ShapingArgument]:
    """Of one model, those that have the values that the script's options gave."""
    event = next((one for one in observation.models if one["name"] == name), None)
    cls = type(copies.models[name])
    call = constructor_call(cls, event) if event is not None else None
    if event is None or call is None:
        return []
    expressions = OptionExpressions(call[0], observation.options, ())
    given = copies.arguments.get(name, {})
    file = Path(event["constructed"]["where"]["file"])
    found = []
    for argument, node in arguments_by_name(cls, call[1]):
        expression = expressions.of(node)
        if expression is not None and given.get(argument) == expression.value:
            found.append(ShapingArgument(name, argument, expression, file))
    return found


def _are_as_constructed(copies: Copies, models: Sequence[str]) -> bool:
    """Whether the script did nothing to the models behind their constructors: model.py does not do it to a new one."""
    with torch.random.fork_rng(devices=[]):
        for name in models:
            try:
                new = copies.constructors[name]()
            except Exception:  # the script's own code
                return False
            model = copies.models[name]
            weights = zip(new.parameters(), model.parameters(), copies.written[name], strict=False)
            if any(one._version != count or one.requires_grad != two.requires_grad for one, two, count in weights):
                return False
            if [one.training for one in new.modules()] != [one.training for one in model.modules()]:
                return False
    return True
