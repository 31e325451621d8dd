"""How a checkpoint's tensors are sharded for a mesh that a file is written for. Needs no devices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from port.errors import UsageError

Shape = tuple[int, ...]
MOST_DEVICES = 1_000_000
"""Of a mesh that a file is written for; these need not be here."""
LONGEST = "longest:"
"""The prefix before a mesh axis: shard along a tensor's longest axis that it divides."""


@dataclass(frozen=True)
class Longest:
    """A rule for tensors of all shapes: shard the longest axis that the devices divide, the first of equal ones.

    A tensor without such an axis is replicated on every device.

    Attributes:
        axis: the mesh axis.
        devices: the number of devices along it.
    """

    axis: str
    devices: int

    def __call__(self, path: str, shape: Shape) -> tuple[str | None, ...]:
        """The mesh axis for each axis of a tensor."""
        divided = [axis for axis, size in enumerate(shape) if size and size % self.devices == 0]
        cut = max(divided, key=lambda axis: shape[axis], default=None)
        return () if cut is None else tuple(self.axis if axis == cut else None for axis in range(cut + 1))


@dataclass(frozen=True)
class MeshCut:
    """A mesh, and which of its axes shard which tensors.

    Attributes:
        axes: name → devices along it, in the mesh's order.
        sharding: as in `port.load`, where a table may also contain a `Longest`; None: a mesh of one axis shards all
            tensors by it, each along its longest axis.

    Raises:
        UsageError: several axes without a sharding; more than `MOST_DEVICES`.
    """

    axes: Mapping[str, int]
    sharding: Any = None

    def __post_init__(self) -> None:
        if (devices := prod(self.axes.values())) > MOST_DEVICES:
            axes = " × ".join(f"{axis}={size}" for axis, size in self.axes.items())
            raise UsageError(
                f"mesh: {axes} are {devices} devices. A file is written for at most {MOST_DEVICES}, which need not be "
                "here: give the number that will read it"
            )
        if self.sharding is None and len(self.axes) > 1:
            last = list(self.axes)[-1]
            raise UsageError(
                f"a mesh of several axes ({', '.join(self.axes)}) needs a sharding, which says which of them a "
                f"tensor is sharded by: a table of patterns, as in --sharding '.*={LONGEST}{last}' or "
                f"--sharding '.*kernel={last},-'"
            )

    @property
    def rules(self) -> Any:
        """The sharding to use: a table, a function, or one for all tensors."""
        if self.sharding is not None:
            return self.sharding
        ((axis, devices),) = self.axes.items()
        return {".*": Longest(axis, devices)}


def mesh_axes_of(text: str) -> dict[str, int]:
    """Parse a mesh: ``fsdp=8``, or ``data=2,fsdp=4``.

    Raises:
        UsageError: another form; an axis that is named twice.
    """
    matches = [re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*([1-9]\d{0,99})\s*", part) for part in text.split(",")]
    found = [(match[1], match[2]) for match in matches if match is not None]
    if len(found) < len(matches):
        raise UsageError(
            f"mesh takes axes, each with the number of its devices, as in fsdp=8 or data=2,fsdp=4; got {text!r}. A "
            "load onto another mesh reads the same file"
        )
    axes = {name: int(size) for name, size in found}
    if twice := [name for name in axes if sum(other == name for other, _ in found) > 1]:
        raise UsageError(f"mesh: the axis {twice[0]} occurs twice in {text!r}. Give each axis a name of its own")
    return axes


def sharding_table(texts: Iterable[str], axes: Mapping[str, int]) -> dict[str, Any]:
    """Parse a table of patterns: ``.*kernel=fsdp,-``, ``.*embedding=data+fsdp``, ``.*=-``.

    Before ``=`` comes a regular expression that matches a tensor's whole path, after it the mesh axis for each of the
    tensor's axes: an axis of the mesh, several joined by ``+``, or ``-`` for none; ``-`` alone is for tensors of any
    number of axes. ``longest:fsdp`` chooses the tensor's axis by its shape.

    Raises:
        UsageError: an item of another form, or a pattern that occurs twice.
    """
    table: dict[str, Any] = {}
    for text in texts:
        pattern, is_there, spec = text.rpartition("=")
        if not is_there or not pattern or not spec.strip():
            raise UsageError(
                f"sharding takes PATTERN=AXES, as in '.*kernel=fsdp,-' or '.*={LONGEST}fsdp'; got {text!r}"
            )
        if pattern in table:
            raise UsageError(f"sharding: the pattern {pattern!r} occurs twice")
        table[pattern] = _spec(spec, axes)
    return table


def _spec(text: str, axes: Mapping[str, int]) -> Any:
    text = text.strip()
    if text == "-":
        return ()
    if text.startswith(LONGEST):
        name = text.removeprefix(LONGEST)
        if name not in axes:
            raise UsageError(f"sharding: {text} names {name}, but the mesh has {', '.join(axes)}")
        return Longest(name, axes[name])
    parts = [tuple(name.strip() for name in part.split("+")) for part in text.split(",")]
    return tuple(None if names == ("-",) else names if len(names) > 1 else names[0] for names in parts)


def chunk_of(shard: Shape, itemsize: int, limit: int, *, is_cut: bool) -> Shape:
    """Choose the shape of a chunk of about ``limit`` bytes: some rows of one device's part of a tensor.

    Args:
        shard: the shape of that part.
        itemsize: bytes of an element.
        limit: bytes of a chunk.
        is_cut: whether the rows are divided among the devices: a chunk then has rows of only one device, so that their
            number divides the shard's.
    """
    if not shard:
        return ()
    wanted = min(max(1, limit // max(1, prod(shard[1:]) * itemsize)), max(1, shard[0]))
    if not is_cut or shard[0] % wanted == 0:
        return (wanted, *shard[1:])
    divisors = [rows for rows in range(1, shard[0] + 1) if shard[0] % rows == 0]
    smaller, larger = max(rows for rows in divisors if rows <= wanted), min(rows for rows in divisors if rows > wanted)
    # With a prime number of rows a chunk would be one row: many small ones take longer than a large one.
    return (smaller if smaller * _SMALLEST >= wanted else larger, *shard[1:])


_SMALLEST = 16
"""A chunk is at least this part of the requested size."""
