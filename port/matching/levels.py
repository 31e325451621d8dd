"""Levels: whether a layer is matched as a whole or in parts, and which layers Flax stacks into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from port.errors import NoPair
from port.mapping.names import natural
from port.matching.units import ROLES, Unit

Fits = Callable[[Unit, Unit], bool]
"""Whether torch's unit can be Flax's."""


def levelled(torch: list[Unit], flax: list[Unit]) -> tuple[list[Unit], list[Unit]]:
    """Split both sides' units into parts, unless the other side has them whole too."""
    theirs, ours = list(_all(torch)), list(_all(flax))
    return _chosen(torch, ours, is_torch=True), _chosen(flax, theirs, is_torch=False)


def _all(units: Iterable[Unit]) -> Iterable[Unit]:
    for unit in units:
        yield unit
        yield from _all(unit.parts)


def _chosen(units: Iterable[Unit], others: list[Unit], *, is_torch: bool) -> list[Unit]:
    found: list[Unit] = []
    for unit in units:
        is_whole = not unit.parts or any(_speaks(unit, other) if is_torch else _speaks(other, unit) for other in others)
        found += [unit] if is_whole else _chosen(unit.parts, others, is_torch=is_torch)
    return found


def _speaks(torch: Unit, flax: Unit) -> bool:
    """Whether some pair covers all the tensors of both."""
    for pair in torch.pairs:
        if pair not in flax.pairs:
            continue
        try:
            params = flax.params(pair)
        except NoPair:
            continue
        held = [p for p in params if {*p.torch_names} <= {*torch.names} and {*p.flax_names} <= {*flax.names}]
        theirs = {name for param in held for name in param.torch_names} | {*pair.torch_only}
        ours = {name for param in held for name in param.flax_names}
        if {*torch.names} <= theirs and {*flax.names} <= ours:
            return True
    return False


def by_tensor(units: Iterable[Unit], others: Iterable[Unit], fits: Fits) -> list[Unit]:
    """Split units that have no counterpart as a whole into single tensors.

    On the other side, a user's module may hold the layer's weight and bias as its own parameters.

    Args:
        units: the units of one side.
        others: the units of the other side.
        fits: whether one of ``units`` can be one of ``others``.
    """
    others = list(others)
    single = [other for other in others if len(other.names) == 1]
    found: list[Unit] = []
    for unit in units:
        parts = _tensors_of(unit) if single and not any(fits(unit, other) for other in others) else []
        is_apart = parts and all(any(fits(part, other) for other in single) for part in parts)
        found += parts if is_apart else [unit]
    return found


def _tensors_of(unit: Unit) -> list[Unit]:
    names = [name for name in unit.names if name not in unit.aside]
    if len(names) < 2 or unit.aside or unit.copies or unit.stack is not None:
        return []
    parts = []
    for name in names:
        is_weight = ROLES.get(name) == "weight"
        seen = (unit.seen[0], None) if is_weight else (None, None)
        own = replace(unit, names={name: unit.names[name]}, shapes={name: unit.shapes[name]}, seen=seen)
        parts.append(replace(own, pairs=(), parts=(), family=unit.family if is_weight else "own"))
    return parts


# %% Stacks


def stacked(torch: list[Unit], flax: list[Unit], fits: Fits) -> tuple[list[Unit], list[Unit]]:
    """Stack torch's units where several of its layers are one Flax layer that runs as a scan.

    Args:
        torch: torch's units.
        flax: Flax's.
        fits: whether one can be the other.
    """
    groups = _repeated(torch)
    if not groups:
        return torch, flax
    single = {unit for unit in flax if any(fits(other, unit) for other in torch)}
    counts = sorted({1 + len(group.copies) for group in groups}, reverse=True)
    known: dict[Unit, tuple[int, int]] = {}
    for unit in flax:
        for count in counts if unit not in single else ():
            for axis in (0, 1):
                whole = unstacked(unit, count, axis)
                if unit not in known and whole is not None and any(fits(group, whole) for group in groups):
                    known[unit] = count, axis
    ours = []
    for unit in flax:
        stack = known.get(unit) or (None if unit in single else _as_its_neighbours(unit, known, single))
        whole = unstacked(unit, *stack) if stack else None
        ours.append(whole or unit)
    used = {stack[0] for unit in ours if (stack := unit.stack)}
    if not used:
        return torch, flax
    # Only groups with tensors for such a stack are stacked; the layers of the others are matched one by one.
    taken = [group for group in groups if 1 + len(group.copies) in used]
    inside = {name for group in taken for name in group.tensors}
    return [*taken, *(unit for unit in torch if unit.label not in inside)], ours


def _repeated(units: list[Unit]) -> list[Unit]:
    """Layers whose names differ by one number only, from the first to the last, as one unit."""
    found: dict[tuple[str, ...], list[Unit]] = {}
    for unit in units:
        parts = unit.label.split(".")
        for place, part in enumerate(parts):
            if part.isdigit():
                key = (*parts[:place], "*", *parts[place + 1 :], *unit.names, str(unit.shapes))
                found.setdefault(key, []).append(unit)
    groups = []
    for members in found.values():
        if len(members) > 1:
            first, *others = sorted(members, key=lambda unit: natural(unit.label))
            groups.append(replace(first, copies=tuple(unit.names for unit in others)))
    return groups


def unstacked(unit: Unit, count: int, axis: int) -> Unit | None:
    """A stacked unit as one of its layers; None if its shapes do not have that many along that axis."""
    if any(len(shape) <= axis or shape[axis] != count for shape in unit.shapes.values()):
        return None
    shapes = {name: (*shape[:axis], *shape[axis + 1 :]) for name, shape in unit.shapes.items()}
    return replace(unit, shapes=shapes, stack=(count, axis), seen=(None, None))


def _as_its_neighbours(unit: Unit, known: dict[Unit, tuple[int, int]], single: set[Unit]) -> tuple[int, int] | None:
    """How the units in the same module, or the nearest one around it, are stacked."""
    path = unit.path
    while path:
        path = path.rpartition(".")[0]
        beneath = [other for other in (*known, *single) if other.path.startswith(f"{path}." if path else "")]
        if beneath:
            stacks = {known.get(other) for other in beneath}
            return next(iter(stacks)) if len(stacks) == 1 else None
    return None
