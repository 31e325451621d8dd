"""Options: how units of both sides can correspond, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from port.errors import NoPair, WeightsMismatch
from port.mapping.entry import TORCH_ONLY
from port.mapping.found import Found
from port.matching.routes import Moves, routes
from port.matching.units import Unit
from port.moves import Shapes
from port.pairs import LayerPair

Node = tuple[Unit, ...]
"""What is matched as one: a unit, or several that are one on the other side (query, key and value)."""


@dataclass(frozen=True)
class Option:
    """One way for a torch node to be a Flax node.

    Attributes:
        torch: torch's units.
        flax: Flax's.
        found: their tensors, and the moves between them.
        is_sure: whether a pair defines the moves; otherwise they are one of the ways that the shapes allow.
        note: remarks for the user.
    """

    torch: Node
    flax: Node
    found: tuple[Found, ...]
    is_sure: bool = True
    note: str = ""

    def __hash__(self) -> int:
        return hash((self.torch, self.flax, self.note))


Link = tuple[tuple[str, ...], tuple[str, ...], Moves]
"""Tensors of a torch unit and of a Flax unit by their layers' names for them, and the moves between them."""


def options_of(torch: Unit, flax: Unit, collections: dict[str, str]) -> list[Option]:
    """List every way for one unit to be the other; the usual one first, empty if they cannot be.

    Args:
        torch: torch's unit.
        flax: Flax's.
        collections: Flax's kind of variable for each of its tensors.
    """
    if (1 + len(torch.copies)) != (flax.stack[0] if flax.stack else 1):
        return []
    common = [pair for pair in torch.pairs if pair in flax.pairs]
    readings = [(links, True) for pair in common if (links := _by_pair(torch, flax, pair)) is not None][:1]
    if not common or torch.family != flax.family:
        readings += [(links, False) for links in _by_shape(torch, flax)]
    found = []
    for number, (links, is_sure) in enumerate(readings):
        note = "" if is_sure else _note(links, number)
        found.append(Option((torch,), (flax,), found_of(torch, (flax,), links, collections), is_sure, note))
    return found


def found_of(torch: Unit | Node, flax: Node, links: Sequence[Link], collections: dict[str, str]) -> tuple[Found, ...]:
    """The links under the tensors' full names, for each of the layers that are stacked.

    Names of several units are prefixed with the unit's number: ``0/weight``.
    """
    units = torch if isinstance(torch, tuple) else (torch,)
    flax_names = _numbered([unit.names for unit in flax])
    linked = {name for theirs, _, _ in links for name in theirs}
    found = []
    for copy in range(1 + len(units[0].copies)):
        names = _numbered([(unit.names, *unit.copies)[copy] for unit in units])
        for theirs, ours, moves in links:
            targets = tuple(flax_names[name] for name in ours)
            found.append(Found(tuple(names[name] for name in theirs), targets, moves, collections[targets[0]]))
        found += [Found((full,), (full,), (), TORCH_ONLY, True) for name, full in names.items() if name not in linked]
    return tuple(found)


def _numbered(names: list[dict[str, str]]) -> dict[str, str]:
    if len(names) == 1:
        return names[0]
    return {f"{number}/{name}": full for number, named in enumerate(names) for name, full in named.items()}


def _by_pair(torch: Unit, flax: Unit, pair: LayerPair) -> list[Link] | None:
    """All tensors of both units, as a pair defines them; None if it does not cover all, or the shapes do not fit."""
    try:
        params = flax.params(pair)
    except NoPair:
        return None
    links: list[Link] = []
    theirs, ours = set(torch.names), set(flax.names)
    for param in params:
        if theirs.issuperset(param.torch_names) and ours.issuperset(param.flax_names):
            moved = shapes_after(param.moves, tuple(torch.shapes[name] for name in param.torch_names))
            if moved != tuple(flax.shapes[name] for name in param.flax_names):
                return None
            links.append((param.torch_names, param.flax_names, param.moves))
            theirs -= set(param.torch_names)
            ours -= set(param.flax_names)
    return None if theirs - set(pair.torch_only) or ours or not links else links


def _by_shape(torch: Unit, flax: Unit) -> Iterator[list[Link]]:
    """All tensors of both units, each matched to the one with the same role, by the moves that the shapes allow."""
    if not _may_meet(torch.family, flax.family):
        return
    theirs, ours = torch.role_names, flax.role_names
    if theirs is None or ours is None:
        return
    if len(theirs) == len(ours) == 1 and "own" in (torch.family, flax.family):
        # The twin determines the role of a user module's own parameter: the bias of a layer whose weight is tied.
        role = next(iter(ours if torch.family == "own" else theirs))
        theirs, ours = {role: next(iter(theirs.values()))}, {role: next(iter(ours.values()))}
    if set(theirs) != set(ours):
        return
    ways = [
        routes(torch.family, torch.shapes[theirs[role]], flax.family, flax.shapes[ours[role]], role=role)
        for role in theirs
    ]
    for moves in product(*ways):
        yield [((theirs[role],), (ours[role],), way) for role, way in zip(theirs, moves, strict=True)]


def _may_meet(torch: str, flax: str) -> bool:
    together = {torch, flax}
    return "own" in together or together in ({"linear", "conv"}, {"linear", "embedding"}, {"embedding"})


def shapes_after(moves: Moves, shapes: Shapes) -> Shapes | None:
    """The shapes after some moves; None if the moves cannot take them."""
    try:
        for move in moves:
            shapes = move.shapes(shapes)
    except WeightsMismatch:
        return None
    return shapes


def _note(links: list[Link], number: int) -> str:
    moves = next((moves for _, _, moves in links if moves), ())
    return (", ".join(map(str, moves)) or "unchanged") + (f" (way {number + 1})" if number else "")
