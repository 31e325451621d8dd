"""Find options that shape a script's model: train.py passes them to the constructors of model.py, ``--hidden 256``.

The script shows which constructor arguments they set. Before an option is free, the original is constructed at another
value of it, and compared with the written model.
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
"""Names in train.py that no class of the model may have."""


@dataclass(frozen=True)
class ShapingArgument:
    """A constructor argument of a model that options set.

    Attributes:
        model: the script's name for the model.
        name: the argument's name.
        expression: an expression of the script's options.
        file: the expression's file.
    """

    model: str
    name: str
    expression: OptionExpression
    file: Path


@dataclass(frozen=True)
class Shaping:
    """How train.py constructs the model with its options.

    Attributes:
        arguments: the arguments that options set.
        construction: the model's construction in model.py.
        options: the values of the script's options.
    """

    arguments: tuple[ShapingArgument, ...]
    construction: ModelConstruction
    options: Mapping[str, Any]

    def covered(self, file: Path) -> set[tuple[int, int]]:
        """The places in a file where these options are read."""
        return {place for one in self.arguments if one.file == file for place in one.expression.places}

    def without(self, kept: Collection[str]) -> Shaping | None:
        """Keep only the arguments whose options are free; None if none is.

        Args:
            kept: options with fixed values.
        """
        free = tuple(one for one in self.arguments if not one.expression.options & {*kept})
        return Shaping(free, self.construction, self.options) if free else None

    @property
    def source(self) -> str:
        """The construction with a script's options, ``args``."""
        return self.construction.source({(one.model, one.name): one.expression.said({}) for one in self.arguments})

    @property
    def first(self) -> dict[str, Any]:
        """The options with which the initial weights were drawn."""
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
    """Find them, and compare both sides at other values; None if no option shapes the model, or none can be free.

    Args:
        observation: the script's observation.
        copies: copies of its models.
        models: the models that lead to the loss.
        translation: the translation of the module that computes the loss.
        construct: constructs that module, with some of its models' arguments changed.
        folder: the folder of train_step.py and model.py.
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
    """The arguments of one model whose values match the script's options."""
    event = next((one for one in observation.models if one["name"] == name), None)
    cls = type(copies.models[name])
    call = constructor_call(cls, event) if event is not None else None
    if event is None or call is None:
        return []
    expressions = OptionExpressions(call[0], observation.options, ())
    passed = copies.arguments.get(name, {})
    file = Path(event["constructed"]["where"]["file"])
    found = []
    for argument, node in arguments_by_name(cls, call[1]):
        expression = expressions.of(node)
        if expression is not None and passed.get(argument) == expression.value:
            found.append(ShapingArgument(name, argument, expression, file))
    return found


def _are_as_constructed(copies: Copies, models: Sequence[str]) -> bool:
    """Whether the script left the models unchanged after construction, because model.py would not repeat a change."""
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
