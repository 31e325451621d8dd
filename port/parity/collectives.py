"""List the collectives of a compiled program on a mesh, and find the unintended ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

Shape = tuple[int, ...]
KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
UNKNOWN = "?"
"""Placeholder for mesh axes if the device groups are in an unknown format."""


@dataclass(frozen=True)
class Collective:
    """One collective of a compiled program; XLA joins several into one.

    Attributes:
        kind: of `KINDS`.
        along: the mesh axes whose devices take part in it together.
        shapes: its result on a device, each array with its dtype.
        op: the operation of the program that it implements, by JAX's name.
    """

    kind: str
    along: tuple[str, ...]
    shapes: tuple[tuple[str, Shape], ...]
    op: str = ""

    def __str__(self) -> str:
        shown = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in self.shapes[:3])
        more = f" and {len(self.shapes) - 3} more" if len(self.shapes) > 3 else ""
        return f"{self.kind} along {', '.join(self.along) or 'no axis'} of {shown}{more} ({self.op or 'unknown'})"


def collectives_of(text: str, mesh: Mapping[str, int]) -> list[Collective]:
    """List the collectives in the text of a compiled program: ``jax.jit(f).lower(…).compile().as_text()``.

    A collective in a loop's body is listed once, however often the loop runs. One whose groups are single devices does
    nothing, and is left out.

    Args:
        text: the text of the compiled program.
        mesh: the mesh's axes and their sizes, ``mesh.shape``.
    """
    found = []
    for line in text.splitlines():
        match = _CALL.search(_LAYOUT.sub("", line))
        if match is None:
            continue
        shapes = tuple(
            (dtype, tuple(int(size) for size in sizes.split(",") if size))
            for dtype, sizes in _ARRAY.findall(match["made"])
        )
        if match["started"] and match["kind"] == "all-gather" and len(shapes) > 1:
            shapes = shapes[len(shapes) // 2 :]  # inputs come before outputs
        op = re.search(r'op_name="([^"]*)"', line)
        along = _along(line, mesh)
        if along:
            found.append(Collective(match["kind"], along, shapes, op[1] if op else ""))
    return found


def unmeant(
    collectives: Sequence[Collective], parameters: Mapping[str, Shape], mesh: Mapping[str, int], batch: Sequence[str]
) -> list[str]:
    """Describe the collectives of a training step that data, FSDP and tensor parallelism do not need, one line each.

    Intended along axes that divide the batch: gathers of parameters, sums of their gradients (``reduce-scatter``, or
    ``all-reduce``, which XLA's CPU backend also uses for it), and sums of scalars, such as the loss. Along the others:
    sums of activations after a projection, before it in the backward pass, and of a loss over parts of its classes.

    Args:
        collectives: the collectives of the compiled step.
        parameters: path → the full shape of a parameter.
        mesh: the mesh's axes and their sizes.
        batch: the axes that divide the batch.
    """
    shapes = _parts(parameters.values(), mesh)
    wrong = []
    for each in collectives:
        divides = {axis in batch for axis in each.along}
        arrays = [shape for _, shape in each.shapes if prod(shape) > 1]
        others = [shape for shape in arrays if not _is_of_weight(shape, shapes)]
        if each.kind in ("all-to-all", "collective-permute") or UNKNOWN in each.along:
            wrong.append(f"{each}: no intended collective moves shards between devices")
        elif divides == {False}:
            if each.kind != "all-reduce":
                wrong.append(f"{each}: after a divided projection, partial results are summed, not gathered")
        elif divides == {True}:
            if others:
                what = "gathered" if each.kind == "all-gather" else "summed"
                wrong.append(f"{each}: {list(others[0])} is no part of a parameter; activations are {what}")
        elif arrays:
            wrong.append(f"{each}: along axes that divide the batch and others at once")
    return wrong


def counted(collectives: Sequence[Collective]) -> dict[tuple[str, tuple[str, ...]], int]:
    """The number of collectives by kind and mesh axes."""
    return dict(Counter((each.kind, each.along) for each in collectives))


def bytes_a_device(arrays: Any) -> dict[Any, int]:
    """Device → the bytes of a tree's arrays that it holds."""
    import jax

    held: Counter[Any] = Counter()
    for array in jax.tree.leaves(arrays):
        if isinstance(array, jax.Array) and not jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            for shard in array.addressable_shards:
                held[shard.device] += shard.data.nbytes
    return dict(held)


CONVOLVED = 4
"""The axes of a convolution's kernel over images: XLA sums the gradient of one that is transposed in another order."""


def _parts(shapes: Any, mesh: Mapping[str, int]) -> set[Shape]:
    """The shapes of parameters and of their possible shards, with the axes in any order.

    A stack of layers is gathered one layer at a time.
    """
    counts = {prod(some) for some in _choices(list(mesh.values()))}
    found: set[Shape] = set()
    for shape in shapes:
        for whole in {tuple(shape), tuple(shape[1:])}:
            for part in _divided(whole, counts):
                found |= {*permutations(part)} if len(part) <= CONVOLVED else {part}
    return found


def _choices(sizes: list[int]) -> Iterator[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    for rest in _choices(sizes[1:]):
        yield rest
        yield (sizes[0], *rest)


def _divided(shape: Shape, counts: set[int]) -> Iterator[Shape]:
    if not shape:
        yield ()
        return
    for rest in _divided(shape[1:], counts):
        for count in counts:
            if shape[0] % count == 0:
                yield (shape[0] // count, *rest)


def _is_of_weight(shape: Shape, known: set[Shape]) -> bool:
    """Whether an array is a parameter, or some rows of an embedding table."""
    return shape in known or (
        len(shape) == 2 and any(len(each) == 2 and each[1] == shape[1] and shape[0] <= each[0] for each in known)
    )


def _along(line: str, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The mesh axes along which the devices of a collective's groups differ."""
    groups = _groups(line, prod(mesh.values()))
    if groups is None:
        return (UNKNOWN,)
    places = [np.stack(np.unravel_index(group, tuple(mesh.values())), axis=1) for group in groups]
    return tuple(name for axis, name in enumerate(mesh) if any(len({*each[:, axis]}) > 1 for each in places))


def _groups(line: str, devices: int) -> list[list[int]] | None:
    """The device groups, by device number; None if their format is unknown."""
    if match := re.search(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{} ]*\})\}", line):
        return [[int(each) for each in group.split(",")] for group in re.findall(r"\{([\d, ]+)\}", match[1])]
    if match := re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line):
        return [[int(each) for each in group] for group in _in_order(match[2], match[3]).reshape(_sizes(match[1]))]
    if match := re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\([^)]*\)?\))?\s*\{([^}]*)\}", line):
        sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", match[1])}
        along = re.findall(r"'([^']+)'", match[2])
        order = re.search(r"device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\)", line)
        if prod(sizes.values()) != devices or "(" in match[2] or ("device_ids=(" in line and order is None):
            return None
        numbers = np.arange(devices) if order is None else _in_order(order[1], order[2])
        numbers = numbers.reshape(tuple(sizes.values()))
        last = [place for place, name in enumerate(sizes) if name in along]
        first = [place for place in range(len(sizes)) if place not in last]
        made = np.transpose(numbers, (*first, *last))
        return [[int(each) for each in group] for group in made.reshape(-1, prod(sizes[name] for name in along))]
    if re.search(r"replica_groups=\{\}", line):
        return [list(range(devices))]
    return None


def _in_order(start: str, order: str | None) -> np.ndarray:
    """The devices of a grid, ``2,4``, with its axes in another order, ``1,0``."""
    numbers = np.arange(prod(_sizes(start))).reshape(_sizes(start))
    return np.transpose(numbers, _sizes(order)) if order else numbers


def _sizes(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


_CALL = re.compile(rf"= (?P<made>[^=]+?) (?P<kind>{'|'.join(KINDS)})(?P<started>-start)?\(")
_LAYOUT = re.compile(r"\{[^}]*\}|/\*.*?\*/")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
