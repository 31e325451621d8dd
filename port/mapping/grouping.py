"""Turns matches into entries: several torch layers that are one stacked Flax layer, and tied weights."""

from __future__ import annotations

from collections import defaultdict

from port.errors import WeightsMismatch
from port.mapping.complain import Complaints
from port.mapping.entry import TORCH_ONLY, Entry
from port.mapping.found import Found
from port.mapping.guide import Guide
from port.mapping.names import natural
from port.moves import Branch, Copy, EachBranch, Move, Order, Shapes, Stack, Tie


def entries_of(found: list[Found], torch: Guide, flax: Guide, complaints: Complaints) -> list[Entry]:
    """Make one entry for every set of Flax paths, from everything that goes there."""
    homes: dict[tuple[str, ...], list[Found]] = defaultdict(list)
    for match in dict.fromkeys(found):
        homes[match.flax].append(match)
    merged = [_merged(matches, torch, flax, complaints) for matches in homes.values()]
    merged = _with_ties(merged, torch)
    complaints.twice(merged)
    return [entry for match in merged if (entry := _entry(match, torch, flax, complaints)) is not None]


def _merged(matches: list[Found], torch: Guide, flax: Guide, complaints: Complaints) -> Found:
    first = matches[0]
    if len(matches) == 1:
        return first
    matches = sorted(matches, key=lambda match: natural(match.torch[0]))
    if len({(match.moves, _shapes(torch, match.torch)) for match in matches}) > 1:
        complaints.two_homes(first.flax, [match.torch for match in matches])
        return first
    try:
        moved_shapes = _after(first.moves, _shapes(torch, first.torch))
    except WeightsMismatch:
        return first  # of the wrong shape: `_entry` reports it
    wanted = _shapes(flax, first.flax)
    names = tuple(name for match in matches for name in match.torch)
    count = len(matches)
    if moved_shapes == wanted and len(first.torch) == 1 and _may_be_one(torch, names):
        return Found(names, first.flax, (Tie(count), *first.moves), first.collection, first.optional)
    for axis in range(len(moved_shapes[0]) + 1):
        if tuple((*shape[:axis], count, *shape[axis:]) for shape in moved_shapes) == wanted:
            return Found(names, first.flax, _stacked(first, count, axis), first.collection, first.optional)
    complaints.two_homes(first.flax, [match.torch for match in matches])
    return first


def _may_be_one(torch: Guide, names: tuple[str, ...]) -> bool:
    """Whether these may be names of one tensor. A checkpoint does not say; `Tie` then compares the values."""
    return not torch.layers or len({torch.tied.get(name, name) for name in names}) == 1


def _stacked(match: Found, count: int, axis: int) -> tuple[Move, ...]:
    sources, targets = len(match.torch), len(match.flax)
    if sources == targets == 1:
        return (*match.moves, Stack(axis, count))
    # The tensors layer by layer, reordered to all layers' first, all layers' second …, then each of these stacked.
    layers = EachBranch((Branch(sources, match.moves, targets),) * count)
    by_target = Order(tuple(layer * targets + target for target in range(targets) for layer in range(count)))
    return layers, by_target, EachBranch((Branch(count, (Stack(axis, count),), 1),) * targets)


def _with_ties(matches: list[Found], torch: Guide) -> list[Found]:
    """Bring together the names of a tied weight, whether Flax stores it once or several times."""
    if not torch.tied:
        return matches
    groups: dict[str, list[Found]] = defaultdict(list)
    for match in matches:
        groups[torch.tied.get(match.torch[0], match.torch[0])].append(match)
    result = []
    for first, group in groups.items():
        names = (first, *(name for name, original in torch.tied.items() if original == first))
        if len(names) == 1 or any(len(match.torch) > 1 for match in group):
            result += group
            continue
        moves: tuple[Move, ...] = (Tie(len(names)), *group[0].moves)
        if len(group) > 1:
            branches = tuple(Branch(1, match.moves, len(match.flax)) for match in group)
            moves = (Tie(len(names)), Copy(len(group)), EachBranch(branches))
        targets = tuple(path for match in group for path in match.flax)
        result.append(Found(names, targets, moves, group[0].collection, all(match.optional for match in group)))
    return result


def _entry(match: Found, torch: Guide, flax: Guide, complaints: Complaints) -> Entry | None:
    shapes = _shapes(torch, match.torch)
    entry = Entry(match.torch, match.flax, match.moves, match.collection, shapes, match.optional)
    if match.collection == TORCH_ONLY:
        return entry
    try:
        target_shapes = entry.target_shapes()
    except WeightsMismatch as error:
        complaints.misshapen(str(error))
        return entry
    for path, shape in zip(match.flax, target_shapes, strict=True):
        if flax.leaves[path].shape != shape:
            complaints.misshapen(
                f"{', '.join(match.torch)} of shape {', '.join(map(str, shapes))} becomes {shape}, "
                f"but {path} has shape {flax.leaves[path].shape}"
            )
    return entry


def _shapes(guide: Guide, names: tuple[str, ...]) -> Shapes:
    return tuple(guide.leaves[name].shape for name in names)


def _after(moves: tuple[Move, ...], shapes: Shapes) -> Shapes:
    for move in moves:
        shapes = move.shapes(shapes)
    return shapes
