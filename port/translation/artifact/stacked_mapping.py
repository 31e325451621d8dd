"""Stack lists of layers in a mapping: ``layers.0.x``, ``layers.1.x``, … become one ``layers.x``."""

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
    """Return the mapping of a model whose lists are stacks.

    Args:
        mapping: the mapping of the model with lists.
        lists: the lists to stack, inner ones first.

    Raises:
        CannotScan: layers share a tensor with something else, or hold different tensors.
    """
    entries = list(mapping.entries)
    for each in lists:
        entries = _with_stack(entries, each)
    return replace(mapping, entries=tuple(entries))


def stacked_arrays(values: Named[str, np.ndarray], lists: Sequence[LayerList]) -> dict[str, np.ndarray]:
    """Stack the arrays of each stack's layers.

    Args:
        values: Flax's path → array, of the model with lists.
        lists: the lists to stack, inner ones first.
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
            raise CannotScan(
                f"{', '.join(entry.sources)}: several layers share one tensor, or a layer and another module"
            )
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
    """Renumber an entry of a list's layers that are outside the stack."""
    if entry.collection == TORCH_ONLY:
        return entry
    found = [(target, held.inside(target)) for target in entry.targets]
    targets = [target if each is None else f"{held.path_of(each[0])}.{each[1]}" for target, each in found]
    return replace(entry, targets=tuple(targets))


def _stacked(rest: tuple[str, ...], layers: Named[int, Entry], held: LayerList) -> Entry:
    """Merge the entries of a stack's layers into one.

    Raises:
        CannotScan: a layer lacks the tensor, or the entries differ in kind.
    """
    if lacking := sorted({*held.run} - layers.keys()):
        raise CannotScan(f"layer {lacking[0]} of {held.path} has no {rest[0]}, unlike other layers")
    each = [layers[place] for place in held.run]
    if len({(entry.collection, entry.optional, len(entry.sources)) for entry in each}) > 1:
        raise CannotScan(f"the layers of {held.path} hold {rest[0]} in different ways")
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
    """Return the moves from all layers' tensors to stacked arrays."""
    count, first = len(each), each[0]
    if targets == len(first.sources) == 1 and _for_each_array(first.moves) and len({e.moves for e in each}) == 1:
        return (*first.moves, Stack(0, count))
    layers: tuple[Move, ...] = (EachBranch(tuple(Branch(len(e.sources), e.moves, targets) for e in each)),)
    if targets == 1:
        return (*layers, Stack(0, count))
    # Order by target first, then by layer.
    by_target = Order(tuple(layer * targets + target for target in range(targets) for layer in range(count)))
    return *layers, by_target, EachBranch((Branch(count, (Stack(0, count),), 1),) * targets)


def _for_each_array(moves: Sequence[Move]) -> bool:
    """Whether moves apply to each array separately."""
    return all(isinstance(move, SingleMove) for move in moves)
