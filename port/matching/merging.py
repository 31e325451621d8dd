"""Merging: decides which of the groups that could be one layer of the other side become one node."""

from __future__ import annotations

from collections.abc import Iterable

from port.matching.fusing import SameInput
from port.matching.options import Node, Option
from port.matching.units import Unit


def merged(
    fused: Iterable[Option], sides: tuple[list[Unit], list[Unit]], same_input: tuple[SameInput, SameInput]
) -> dict[Unit, Node]:
    """Return the units that are merged into one node, with the node.

    There are at most as many such nodes as layers that they could be. Groups with one common input come first, as
    queries and keys have different inputs where one sequence attends to another; then those whose module passes that
    input to no other layer; then larger groups before smaller.

    Args:
        fused: every way for several units to be one of the other side's.
        sides: torch's units, and Flax's.
        same_input: whether two torch units have the same input, and two Flax units.
    """
    layers: dict[Node, dict[Unit, None]] = {}
    places: dict[Node, int] = {}
    for option in fused:
        side = 0 if len(option.torch) > 1 else 1
        group, (one,) = (option.torch, option.flax) if side == 0 else (option.flax, option.torch)
        layers.setdefault(group, {})[one] = None
        places[group] = side

    def order(group: Node) -> tuple[bool, bool, int]:
        side = places[group]
        first, *others = group
        alike = all(same_input[side](first, other) for other in others)
        beside = [unit for unit in sides[side] if unit not in group and _module(unit) == _module(first)]
        return not alike, any(same_input[side](first, unit) for unit in beside), -len(group)

    found: dict[Unit, Node] = {}
    used: set[Unit] = set()
    for group in sorted(layers, key=order):
        free = next((one for one in layers[group] if one not in used and one not in found), None)
        if free is None or used.intersection(group) or any(unit in found for unit in group):
            continue
        found |= dict.fromkeys(group, group)
        used.add(free)
    return found


def _module(unit: Unit) -> str:
    return unit.path.rpartition(".")[0]
