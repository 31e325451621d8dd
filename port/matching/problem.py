"""The matching problem: the nodes of both sides, and every option between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from port.mapping import Guide
from port.matching.chunking import chunkings
from port.matching.fusing import SameInput, fusions
from port.matching.levels import by_tensor, levelled, stacked
from port.matching.merging import merged
from port.matching.options import Node, Option, options_of
from port.matching.units import Unit
from port.moves import Fold

_FUSED = re.compile(r"qkv|kv|query_key|key_value|in_proj|c_attn|gate_up|w12|wi\b", re.IGNORECASE)
"""Usual names of several projections in one."""


@dataclass(frozen=True)
class Problem:
    """The nodes of both sides in the order of their calls, and every option between two of them, the usual one first.

    Attributes:
        torch: torch's nodes.
        flax: Flax's nodes.
        options: (torch's node, Flax's) → how they can correspond.
    """

    torch: tuple[Node, ...]
    flax: tuple[Node, ...]
    options: dict[tuple[Node, Node], tuple[Option, ...]] = field(repr=False)

    def between(self, torch: Node, flax: Node) -> tuple[Option, ...]:
        """How two nodes can correspond."""
        return self.options.get((torch, flax), ())

    def for_flax(self, flax: Node) -> list[Node]:
        """torch's nodes that this Flax node can be."""
        return [node for node in self.torch if (node, flax) in self.options]


def problem_of(
    torch: list[Unit],
    flax: list[Unit],
    guide: Guide,
    same_input: tuple[SameInput, SameInput],
    folds: dict[str, tuple[tuple[int, ...], ...]],
) -> Problem:
    """Collect all nodes and options of two sides.

    Args:
        torch: torch's units, in the order of their calls.
        flax: Flax's units, likewise.
        guide: Flax's guide.
        same_input: whether two torch units have the same input, and two Flax units.
        folds: torch's linear layer → the (channels, *spatial) features that may be flattened before it.
    """
    collections = {name: leaf.collection for name, leaf in guide.leaves.items()}
    known = _Known(collections, folds)
    torch, flax = levelled(torch, flax)
    torch, flax = stacked(torch, flax, lambda one, other: bool(known(one, other)))
    torch, flax = (
        by_tensor(torch, flax, lambda one, other: bool(known(one, other))),
        by_tensor(flax, torch, lambda one, other: bool(known(other, one))),
    )
    options: dict[tuple[Node, Node], tuple[Option, ...]] = {}
    for unit in torch:
        for other in flax:
            if found := known(unit, other):
                options[(unit,), (other,)] = tuple(found)
    options = _without_constants(options)
    fused = [*fusions(torch, flax, same_input, collections), *chunkings(torch, flax, collections)]
    fused = _needed(fused, options, len(torch), len(flax))
    for option in fused:
        node = option.torch, option.flax
        options[node] = (*options.get(node, ()), option)
    nodes = merged(fused, (torch, flax), same_input)
    sides = [tuple(dict.fromkeys(nodes.get(unit, (unit,)) for unit in units)) for units in (torch, flax)]
    merged_nodes = {*nodes.values()}
    alone = {unit for option in fused if {option.torch, option.flax} & merged_nodes for unit in _one(option)}
    if len(alone) > len(merged_nodes):
        alone = set()  # some single layers have the shape that several together have
    kept = {
        (theirs, ours): ways
        for (theirs, ours), ways in options.items()
        if theirs in sides[0]
        and ours in sides[1]
        and (len(theirs) + len(ours) > 2 or not ({theirs[0], ours[0]} & alone))
    }
    return Problem(sides[0], sides[1], kept)


def _without_constants(
    options: dict[tuple[Node, Node], tuple[Option, ...]],
) -> dict[tuple[Node, Node], tuple[Option, ...]]:
    """Remove the options between one side's constants and nodes that a trained tensor of that side can be, too."""
    torchs = {torch for torch, flax in options if not flax[0].is_constant}
    flaxs = {flax for torch, flax in options if not torch[0].is_constant}
    return {
        (torch, flax): ways
        for (torch, flax), ways in options.items()
        if torch[0].is_constant == flax[0].is_constant
        or (torch not in torchs if flax[0].is_constant else flax not in flaxs)
    }


class _Known:
    """The options between two units, computed once for each kind."""

    def __init__(self, collections: dict[str, str], folds: dict[str, tuple[tuple[int, ...], ...]]) -> None:
        self._collections, self._folds = collections, folds
        self._none: set[Any] = set()

    def __call__(self, torch: Unit, flax: Unit) -> list[Option]:
        key = _signature(torch), _signature(flax)
        if key in self._none:
            return []
        found = options_of(torch, flax, self._collections)
        if not found:
            self._none.add(key)
        return [way for option in found for way in self._folded(option)]

    def _folded(self, option: Option) -> list[Option]:
        """The option with each flatten folded in that may be before it, and without."""
        (unit,) = option.torch
        if unit.family != "linear" or not (shapes := self._folds.get(unit.path)):
            return [option]
        ways = []
        for shape in shapes:
            fold = Fold(1, shape, (*range(1, len(shape)), 0))
            found = tuple(
                replace(match, moves=(fold, *match.moves)) if match.torch[0].endswith("weight") else match
                for match in option.found
            )
            ways.append(replace(option, found=found, is_sure=False, note=f"flattened {shape} folded in"))
        return [*ways, replace(option, is_sure=False)]


def _signature(unit: Unit) -> Any:
    return (unit.kind, unit.family, tuple(unit.shapes.items()), len(unit.copies), unit.stack, unit.pairs, unit.aside)


def _needed(
    fused: list[Option], options: dict[tuple[Node, Node], tuple[Option, ...]], torch: int, flax: int
) -> list[Option]:
    """The fusions without which the two sides do not match.

    The one layer has no twin of its own, or has a usual name of several in one, or too few layers are of its kind.
    """
    theirs = {node[0] for node, _ in options}
    ours = {node[0] for _, node in options}
    found = []
    for option in fused:
        one, has_twin, others = (
            (option.torch[0], option.torch[0] in theirs, flax > torch)
            if len(option.torch) == 1
            else (option.flax[0], option.flax[0] in ours, torch > flax)
        )
        if not has_twin or _FUSED.search(one.place) or (others and not _is_balanced(one, options)):
            found.append(option)
    return found


def _is_balanced(unit: Unit, options: dict[tuple[Node, Node], tuple[Option, ...]]) -> bool:
    """Whether both sides have equally many layers that this one could be matched with."""
    twins = {pair for pair in options if unit in (pair[0][0], pair[1][0])}
    ours = {flax for _, flax in twins} if any(torch[0] is unit for torch, _ in twins) else {torch for torch, _ in twins}
    others = {pair[0] if pair[1] in ours else pair[1] for pair in options if ours & set(pair)}
    return len(others) == len(ours)


def _one(option: Option) -> tuple[Unit, ...]:
    return option.torch if len(option.torch) == 1 else option.flax
