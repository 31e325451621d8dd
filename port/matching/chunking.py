"""Chunking: tensors that are in several pieces on one side and in one on the other.

Two ways are known. A table is split along an axis into pieces whose names differ by a number (``chunk_0``, ``chunk_1``,
…). Or all tensors of a recurrent layer are in one vector, each of them flattened: the weights of all cells before their
biases, as in cuDNN and `jax.experimental.rnn`, or cell by cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

from port.matching.options import Link, Node, Option, found_of
from port.matching.units import Unit
from port.moves import Branch, EachBranch, Join, Reshape, Shape, Split

_NUMBER = re.compile(r"\d+")
_TABLES = ("own", "embedding")


def chunkings(torch: Iterable[Unit], flax: Iterable[Unit], collections: dict[str, str]) -> list[Option]:
    """List every way in which several units of one side can be one tensor of the other's.

    Args:
        torch: torch's units.
        flax: Flax's.
        collections: Flax's kind of variable for each of its tensors.
    """
    theirs, ours = list(torch), list(flax)
    found = []
    for group in _pieces(theirs):
        for unit in filter(_is_table, ours):
            found += _joined(group, unit, collections)
    for group in _pieces(ours):
        for unit in filter(_is_table, theirs):
            found += _split(unit, group, collections)
    for cells in _recurrent(theirs):
        for unit in filter(_is_vector, ours):
            found += _flattened(cells, unit, collections)
    return found


# %% A table in pieces


def _is_table(unit: Unit) -> bool:
    return unit.family in _TABLES and len(unit.names) == 1 and not unit.copies and unit.stack is None


def _pieces(units: Iterable[Unit]) -> list[Node]:
    """Tables whose names differ by one number only, in the order of the numbers."""
    found: dict[tuple[str, str], dict[int, Unit]] = {}
    for unit in filter(_is_table, units):
        for number in _NUMBER.finditer(unit.label):
            around = unit.label[: number.start()], unit.label[number.end() :]
            found.setdefault(around, {})[int(number[0])] = unit
    return [tuple(group[number] for number in sorted(group)) for group in found.values() if len(group) > 1]


def _shape(unit: Unit) -> Shape:
    return next(iter(unit.shapes.values()))


def _cut(pieces: Node, whole: Shape) -> tuple[int, tuple[int, ...]] | None:
    """The axis along which a table is split into the pieces, and their sizes there."""
    shapes = [_shape(unit) for unit in pieces]
    for axis, size in enumerate(whole):
        rest = (*whole[:axis], *whole[axis + 1 :])
        if all(len(shape) == len(whole) and (*shape[:axis], *shape[axis + 1 :]) == rest for shape in shapes):
            sizes = tuple(shape[axis] for shape in shapes)
            return (axis, sizes) if sum(sizes) == size else None
    return None


def _names(units: Node) -> tuple[str, ...]:
    return tuple(f"{number}/{next(iter(unit.names))}" for number, unit in enumerate(units))


def _joined(pieces: Node, whole: Unit, collections: dict[str, str]) -> list[Option]:
    cut = _cut(pieces, _shape(whole))
    if cut is None:
        return []
    link: Link = (_names(pieces), (next(iter(whole.names)),), (Join(*cut),))
    return [Option(pieces, (whole,), found_of(pieces, (whole,), [link], collections), False, "joined")]


def _split(whole: Unit, pieces: Node, collections: dict[str, str]) -> list[Option]:
    cut = _cut(pieces, _shape(whole))
    if cut is None:
        return []
    link: Link = ((next(iter(whole.names)),), _names(pieces), (Split(*cut),))
    return [Option((whole,), pieces, found_of(whole, pieces, [link], collections), False, "split")]


# %% A recurrent layer in one vector


def _is_vector(unit: Unit) -> bool:
    return unit.family == "own" and len(unit.names) == 1 and len(_shape(unit)) == 1 and unit.stack is None


def _recurrent(units: Iterable[Unit]) -> list[Node]:
    """The cells of each recurrent layer."""
    found: dict[str, list[Unit]] = {}
    for unit in units:
        if unit.family.endswith("Cell") and not unit.copies:
            found.setdefault(unit.path, []).append(unit)
    return [tuple(cells) for cells in found.values()]


def _flattened(cells: Node, vector: Unit, collections: dict[str, str]) -> list[Option]:
    several = len(cells) > 1
    named = [
        (f"{number}/{name}" if several else name, name, unit.shapes[name])
        for number, unit in enumerate(cells)
        for name in unit.names
    ]
    if sum(prod(shape) for _, _, shape in named) != _shape(vector)[0]:
        return []
    weights_first = sorted(named, key=lambda tensor: tensor[1].startswith("bias"))
    found = []
    for order, note in ((weights_first, "flattened, weights before biases"), (named, "flattened, cell by cell")):
        flat = EachBranch(tuple(Branch(1, (Reshape(shape, (prod(shape),)),), 1) for _, _, shape in order))
        join = Join(0, tuple(prod(shape) for _, _, shape in order))
        link: Link = (tuple(name for name, _, _ in order), (next(iter(vector.names)),), (flat, join))
        units = cells if several else cells[0]
        found.append(Option(cells, (vector,), found_of(units, (vector,), [link], collections), False, note))
    return found
