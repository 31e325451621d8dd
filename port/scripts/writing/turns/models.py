"""Write the turns in Flax: one file each, and the models they share."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import port
from port.errors import UsageError
from port.mapping import Mapping as WeightMapping
from port.mapping import save_mapping
from port.random.dropout import drops_within_layers
from port.scripts.writing.turns.proof import TorchTurns
from port.scripts.writing.turns.torch_source import TurnSource


@dataclass(frozen=True)
class WrittenModels:
    """The written models of all turns.

    Attributes:
        mapping: the mapping of each model once, by the script's names.
        holders: model → the first turn that has it, counted from 0.
        orders: the axis order of each input in JAX.
        moved: a turn and an input that an earlier turn returns → the transpose between the two, as source.
        draws: whether one of them draws random numbers.
        input_orders: model → the axis order of its input, if that is an input of its turn.
    """

    mapping: WeightMapping
    holders: dict[str, int]
    orders: dict[str, tuple[int, ...]]
    moved: dict[tuple[int, str], str]
    draws: bool
    input_orders: dict[str, tuple[int, ...]]

    def order_of(self, model: str, rank: int) -> tuple[int, ...] | None:
        """The axis order of a model's input; None if it is not known."""
        order = self.input_orders.get(model)
        return order if order is not None and len(order) == rank else None

    def mapping_of(self, roots: Sequence[str]) -> WeightMapping:
        """The mapping of some models only."""
        kept = [entry for entry in self.mapping.entries if _root(entry) in roots]
        return WeightMapping(tuple(kept))


def written_models(
    folder: Path,
    side: TorchTurns,
    examples: Sequence[Mapping[str, torch.Tensor]],
) -> WrittenModels:
    """Translate each turn and write it into a folder: turn1.py, with its weights and its mapping, and so on.

    Args:
        folder: the output folder; its ``model.mapping.toml`` covers all models.
        side: the turns in torch.
        examples: each turn's inputs in the first step.

    Raises:
        UsageError: a turn has something without a pair, or two turns hold a model differently.
    """
    from port.translation.folder import write_folder

    translations = []
    sources = side.sources
    each = zip(side.modules, side.constructors, sources, examples, strict=True)
    for number, (module, construct, source, example) in enumerate(each, 1):
        inputs = tuple(example[name] for name in source.inputs)
        translation = port.translate(module, inputs, name=f"turn{number}", construct=construct)
        if translation.unwritten:
            raise UsageError(f"no pair covers these parts of the model: {', '.join(map(str, translation.unwritten))}")
        write_folder(translation, folder / "one", name=f"turn{number}")
        for path in (folder / "one").iterdir():
            path.rename(folder / path.name)
        shutil.rmtree(folder / "one")
        translations.append(translation)
    entries, holders = _common(translations)
    mapping = WeightMapping(entries)
    save_mapping(mapping, folder / "model.mapping.toml")
    orders, moved = _orders(translations, sources)
    draws = any(translation.draws.get(True, ()) for translation in translations)
    draws = draws or any(map(drops_within_layers, side.modules))
    input_orders = {
        model: orders[name] for source in sources for model, name in source.model_inputs.items() if name in orders
    }
    return WrittenModels(mapping, holders, orders, moved, draws, input_orders)


def _common(translations: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, int]]:
    """The mapping entries of all models, and the turn from which each is taken."""
    found: dict[str, list[Any]] = {}
    holders: dict[str, int] = {}
    for number, translation in enumerate(translations):
        here: dict[str, list[Any]] = {}
        for entry in translation.mapping.entries:
            here.setdefault(_root(entry), []).append(entry)
        for root, entries in here.items():
            if root in found and {*found[root]} != {*entries}:
                raise UsageError(
                    f"{root} has different weights, or in a different layout, in turn {holders[root] + 1} and in turn "
                    f"{number + 1}, which uses another part of it: have both use all of it, or write the update by "
                    "hand"
                )
            found.setdefault(root, entries)
            holders.setdefault(root, number)
    return tuple(entry for entries in found.values() for entry in entries), holders


def _orders(
    translations: Sequence[Any], sources: Sequence[TurnSource]
) -> tuple[dict[str, tuple[int, ...]], dict[tuple[int, str], str]]:
    """The axes of each input, and the transpose between a turn's output and the turn that takes it."""
    found: dict[str, tuple[int, ...]] = {}
    moved: dict[tuple[int, str], str] = {}
    for number, (translation, source) in enumerate(zip(translations, sources, strict=True)):
        layouts = translation.boundary.layouts
        own = {name: tuple(layouts[name][0].order) for name in source.inputs if layouts.get(name)}
        for name, order in own.items():
            if name in source.takes:
                earlier, place = source.takes[name]
                outputs = translations[earlier].boundary.outputs[True]
                returned = tuple((outputs[place] if isinstance(outputs, tuple) else outputs).order)
                if returned != order:
                    moved[number, name] = f".transpose({', '.join(str(returned.index(axis)) for axis in order)})"
            elif found.setdefault(name, order) != order:
                raise UsageError(
                    f"{name} has another layout in turn {number + 1} than in an earlier one: write the update by hand"
                )
    return found, moved


def _root(entry: Any) -> str:
    return str((entry.sources or entry.targets)[0]).partition(".")[0]
