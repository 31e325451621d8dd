"""Fusing: linear layers that are one on one side and several on the other: query, key and value; gate and value.

Several are combined if they are in one module and either have the names of such projections or have the same input.
Inside the fused layer they are one after the other, or head by head (its rows are heads × layers × features).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations
from math import prod

from port.matching.names import projection
from port.matching.options import Link, Node, Option, found_of, shapes_after
from port.matching.routes import Moves, linear
from port.matching.units import Unit
from port.moves import Branch, EachBranch, Join, Move, Permute, Reshape, Split

SameInput = Callable[[Unit, Unit], bool]
"""Whether two units of one side have the same input."""


def fusions(
    torch: Iterable[Unit],
    flax: Iterable[Unit],
    same_input: tuple[SameInput, SameInput],
    collections: dict[str, str],
) -> list[Option]:
    """List every way in which several linear units of one side can be one of the other's; the usual way first.

    Args:
        torch: torch's units.
        flax: Flax's.
        same_input: for torch's units, and for Flax's.
        collections: Flax's kind of variable for each of its tensors.
    """
    theirs = [unit for unit in torch if _is_linear(unit)]
    ours = [unit for unit in flax if _is_linear(unit)]
    found: list[Option] = []
    for group in _groups(ours, same_input[1]):
        for unit in theirs:
            found += _split(unit, group, collections)
    for group in _groups(theirs, same_input[0]):
        for unit in ours:
            found += _joined(group, unit, collections)
    return found


def _is_linear(unit: Unit) -> bool:
    return unit.family == "linear" and unit.role_names is not None and "weight" in unit.role_names


def _groups(units: list[Unit], same_input: SameInput) -> list[Node]:
    """Units of one module that may be one layer on the other side, in their usual order."""
    found: dict[Node, None] = {}
    by_module: dict[str, list[Unit]] = {}
    for unit in units:
        by_module.setdefault(unit.path.rpartition(".")[0], []).append(unit)
    for siblings in by_module.values():
        roles = {unit: role for unit in siblings if (role := projection(unit.path)) is not None}
        for kind in dict.fromkeys(kind for kind, _ in roles.values()):
            named = sorted((place, unit.path, unit) for unit, (other, place) in roles.items() if other == kind)
            members = tuple(unit for _, _, unit in named)
            found[members] = None
            found[members[1:]] = None  # keys and values alone, if the queries come from elsewhere
        for unit in siblings:
            found[tuple(other for other in siblings if other is unit or same_input(unit, other))] = None
    return [group for group in found if 2 <= len(group) <= 4]


def _split(unit: Unit, group: Node, collections: dict[str, str]) -> list[Option]:
    """Split one torch layer into several Flax layers."""
    roles = unit.role_names or {}
    members = [member.role_names or {} for member in group]
    if any(set(member) != set(roles) for member in members) or any(member.stack != group[0].stack for member in group):
        return []
    if (1 + len(unit.copies)) != (group[0].stack[0] if group[0].stack else 1):
        return []
    shape = unit.shapes[roles["weight"]]
    found = []
    for order in _orders(group):
        kernels = [member.shapes[(member.role_names or {})["weight"]] for member in order]
        sizes = _outs(kernels, shape[1])
        if sizes is None or sum(sizes) != shape[0]:
            return []
        for heads in _heads(sizes, unit.heads, kernels):
            links: list[Link] = []
            for role, name in roles.items():
                whole = unit.shapes[name]
                wanted = tuple(member.shapes[(member.role_names or {})[role]] for member in order)
                apart: Moves = (*_apart(whole, len(order), heads), Split(0, tuple(sizes)))
                moves = _each(apart, whole, wanted, role)
                if moves is None:
                    break
                names = tuple(f"{number}/{(member.role_names or {})[role]}" for number, member in enumerate(order))
                links.append(((name,), names, moves))
            else:
                found_links = found_of(unit, order, links, collections)
                note = _note("split", heads, "" if order == group else ", in another order")
                found.append(Option((unit,), group, found_links, False, note))
    return found


def _joined(group: Node, unit: Unit, collections: dict[str, str]) -> list[Option]:
    """Join several torch layers into one Flax layer."""
    roles = unit.role_names or {}
    if any(set(member.role_names or {}) != set(roles) for member in group):
        return []
    if any(len(member.copies) != len(group[0].copies) for member in group):
        return []
    if (1 + len(group[0].copies)) != (unit.stack[0] if unit.stack else 1):
        return []
    found = []
    for order in _orders(group):
        shapes = [member.shapes[(member.role_names or {})["weight"]] for member in order]
        sizes = tuple(shape[0] for shape in shapes)
        if len({shape[1] for shape in shapes}) != 1:
            return []
        for heads in _heads(sizes, group[0].heads, [unit.shapes[roles["weight"]]]):
            links: list[Link] = []
            for role, name in roles.items():
                parts = tuple(member.shapes[(member.role_names or {})[role]] for member in order)
                whole = (sum(part[0] for part in parts), *parts[0][1:])
                together: Moves = (Join(0, tuple(part[0] for part in parts)), *_together(whole, len(order), heads))
                last = _last(whole, unit.shapes[name], role)
                if last is None:
                    break
                names = tuple(f"{number}/{(member.role_names or {})[role]}" for number, member in enumerate(order))
                links.append((names, (name,), (*together, *last)))
            else:
                found_links = found_of(order, (unit,), links, collections)
                note = _note("joined", heads, "" if order == group else ", in another order")
                found.append(Option(group, (unit,), found_links, False, note))
    return found


def _orders(group: Node) -> list[Node]:
    """The usual order, and all others if no names determine it."""
    are_named = all(projection(unit.path) for unit in group)
    return [group] if are_named else [tuple(order) for order in permutations(group)]


def _outs(kernels: list[tuple[int, ...]], into: int) -> tuple[int, ...] | None:
    """The number of outputs of each kernel, for so many inputs."""
    outs = []
    for kernel in kernels:
        cuts = [cut for cut in range(1, len(kernel)) if prod(kernel[:cut]) == into]
        if not cuts:
            return None
        outs.append(prod(kernel[cuts[0] :]))
    return tuple(outs)


def _heads(sizes: tuple[int, ...], head_count: int | None, kernels: list[tuple[int, ...]]) -> list[int | None]:
    """Layouts of the fused layer: its parts one after the other (None), or head by head, with so many heads."""
    known: list[int] = [head_count] if head_count else []
    known += [kernel[1] for kernel in kernels if len(kernel) > 2]
    heads = [count for count in dict.fromkeys(known) if len(set(sizes)) == 1 and count > 1 and not sizes[0] % count]
    return [None, *heads]


def _apart(whole: tuple[int, ...], count: int, heads: int | None) -> Moves:
    """Reorder rows from head by head to one part after the other."""
    if heads is None:
        return ()
    cut = (heads, count, whole[0] // (heads * count), *whole[1:])
    turned = (count, heads, *cut[2:])
    return Reshape(whole, cut), _exchanged(len(cut)), Reshape(turned, whole)


def _together(whole: tuple[int, ...], count: int, heads: int | None) -> Moves:
    return tuple(move.inverse() for move in reversed(_apart(whole, count, heads)))


def _exchanged(axes: int) -> Move:
    return Permute((1, 0, *range(2, axes)))


def _each(apart: Moves, whole: tuple[int, ...], wanted: tuple[tuple[int, ...], ...], role: str) -> Moves | None:
    """The moves from the whole to each part's shape."""
    parts = shapes_after(apart, (whole,))
    if parts is None or len(parts) != len(wanted):
        return None
    lasts = [_last(part, shape, role) for part, shape in zip(parts, wanted, strict=True)]
    if any(last is None for last in lasts):
        return None
    if len(set(lasts)) == 1:
        return (*apart, *(lasts[0] or ()))
    return (*apart, EachBranch(tuple(Branch(1, last or (), 1) for last in lasts)))


def _last(shape: tuple[int, ...], wanted: tuple[int, ...], role: str) -> Moves | None:
    if role == "weight":
        ways = linear(shape, wanted)
        return ways[0] if ways else None
    if shape == wanted:
        return ()
    return (Reshape(shape, wanted),) if prod(shape) == prod(wanted) else None


def _note(what: str, heads: int | None, more: str) -> str:
    return what + ("" if heads is None else f" head by head ({heads})") + more
