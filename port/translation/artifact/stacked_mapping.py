"""A mapping whose lists of layers are stacks: ``layers.0.x``, ``layers.1.x``, … become one ``layers.x``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping as Named
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from port.mapping import TORCH_ONLY, Entry, Mapping
from port.moves import Branch, EachBranch, Move, Order, Stack
from port.moves.single import SingleMove
from port.translation.structure.layer_stacks import LayerList
from port.translation.structure.scanned_calls import CannotScan


def stacked_mapping(mapping: Mapping, lists: Sequence[LayerList]) -> Mapping:
    """The mapping of a model whose lists are stacks.

    Args:
        mapping: of the model with lists.
        lists: those inside others first.

    Raises:
        CannotScan: layers that share a tensor with something else, or do not hold the same.
    """
    entries = list(mapping.entries)
    for each in lists:
        entries = _with_stack(entries, each)
    return replace(mapping, entries=tuple(entries))


def stacked_arrays(values: Named[str, np.ndarray], lists: Sequence[LayerList]) -> dict[str, np.ndarray]:
    """Arrays by Flax's paths, those of a stack's layers as one.

    Args:
        values: of the model with lists.
        lists: those inside others first.
    """
    made = dict(values)
    for held in lists:
        groups: dict[str, dict[int, np.ndarray]] = defaultdict(dict)
        for path in list(made):
            match held.inside(path):
                case int(place), rest if place in held.run:
                    groups[rest][place] = made.pop(path)
                case int(place), rest:
                    made[f"{held.path_of(place)}.{rest}"] = made.pop(path)
        for rest, layers in groups.items():
            made[f"{held.stack}.{rest}"] = np.stack([layers[place] for place in held.run])
    return made


def _with_stack(entries: Sequence[Entry], held: LayerList) -> list[Entry]:
    groups: dict[tuple[str, ...], dict[int, Entry]] = defaultdict(dict)
    rests: dict[int, tuple[str, ...]] = {}
    for number, entry in enumerate(entries):
        found = [] if entry.collection == TORCH_ONLY else [held.inside(target) for target in entry.targets]
        places = {each[0] if each is not None and each[0] in held.run else None for each in found}
        if not found or places == {None}:
            continue
        (place, *others) = places
        if others or place is None:
            raise CannotScan(f"{', '.join(entry.sources)}: one tensor is of several layers, or of more than layers")
        rests[number] = tuple(each[1] for each in found if each is not None)
        groups[rests[number]][place] = entry
    made, done = [], set()
    for number, entry in enumerate(entries):
        rest = rests.get(number)
        if rest is None:
            made.append(_renamed(entry, held))
        elif rest not in done:
            done.add(rest)
            made.append(_stacked(rest, groups[rest], held))
    return made


def _renamed(entry: Entry, held: LayerList) -> Entry:
    """An entry of layers that are none of a stack: they have other numbers beside it."""
    if entry.collection == TORCH_ONLY:
        return entry
    found = [(target, held.inside(target)) for target in entry.targets]
    targets = [target if each is None else f"{held.path_of(each[0])}.{each[1]}" for target, each in found]
    return replace(entry, targets=tuple(targets))


def _stacked(rest: tuple[str, ...], layers: Named[int, Entry], held: LayerList) -> Entry:
    """One entry for those of all layers of a stack."""
    if lacking := sorted({*held.run} - layers.keys()):
        raise CannotScan(f"layer {lacking[0]} of {held.path} has no {rest[0]}, which others have")
    each = [layers[place] for place in held.run]
    if len({(entry.collection, entry.optional, len(entry.sources)) for entry in each}) > 1:
        raise CannotScan(f"the layers of {held.path} hold {rest[0]} in several ways")
    known = [entry.shapes for entry in each if entry.shapes is not None]
    return Entry(
        tuple(source for entry in each for source in entry.sources),
        tuple(f"{held.stack}.{name}" for name in rest),
        _moves(each, len(rest)),
        each[0].collection,
        tuple(shape for shapes in known for shape in shapes) if len(known) == len(each) else None,
        each[0].optional,
    )


def _moves(each: Sequence[Entry], targets: int) -> tuple[Move, ...]:
    """From all layers' tensors to stacks of them."""
    count, first = len(each), each[0]
    if targets == len(first.sources) == 1 and _for_each_array(first.moves) and len({e.moves for e in each}) == 1:
        return (*first.moves, Stack(0, count))
    layers: tuple[Move, ...] = (EachBranch(tuple(Branch(len(e.sources), e.moves, targets) for e in each)),)
    if targets == 1:
        return (*layers, Stack(0, count))
    # All layers' first, all layers' second …
    by_target = Order(tuple(layer * targets + target for target in range(targets) for layer in range(count)))
    return *layers, by_target, EachBranch((Branch(count, (Stack(0, count),), 1),) * targets)


def _for_each_array(moves: Sequence[Move]) -> bool:
    """Whether moves take each array for itself, however many there are."""
    return all(isinstance(move, SingleMove) for move in moves)
