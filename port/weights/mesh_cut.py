"""How a checkpoint's tensors are cut for the devices of a mesh, where a file is written for them. Needs no devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from port.errors import UsageError

Shape = tuple[int, ...]
SHOWN = 6
"""How many tensors a remark names."""


@dataclass(frozen=True)
class MeshCut:
    """A mesh of one axis, as fully sharded data parallelism has it.

    Attributes:
        axis: its name.
        devices: how many there are along it.
    """

    axis: str
    devices: int

    def cut_axis(self, shape: Shape) -> int | None:
        """The axis along which a tensor is cut: the longest that the devices divide, the first of equal ones.

        None where they divide none: every device then has the whole.
        """
        divided = [axis for axis, size in enumerate(shape) if size and size % self.devices == 0]
        return max(divided, key=lambda axis: shape[axis], default=None)

    def remarks(self, shapes: Mapping[str, Shape]) -> list[str]:
        """What a person should know of tensors of several axes that are not cut: those of one are small anyway."""
        kept = [f"{name} {shape}" for name, shape in shapes.items() if len(shape) > 1 and self.cut_axis(shape) is None]
        if not kept:
            return []
        more = f" and {len(kept) - SHOWN} more" if len(kept) > SHOWN else ""
        return [
            f"no axis of these is divided by {self.devices} devices, and each reads the whole: "
            f"{', '.join(kept[:SHOWN])}{more}"
        ]

    def shard(self, shape: Shape) -> Shape:
        """The shape of what one device has of a tensor."""
        cut = self.cut_axis(shape)
        return tuple(size // self.devices if axis == cut else size for axis, size in enumerate(shape))


def mesh_cut_of(text: str) -> MeshCut:
    """A mesh as a person writes it: ``fsdp=8``.

    Raises:
        UsageError: something else.
    """
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*([1-9]\d*)\s*", text)
    if match is None:
        raise UsageError(
            f"mesh takes one axis and the number of its devices, as in fsdp=8; got {text!r}. A tensor is cut along its "
            "longest axis that they divide; a load onto another mesh reads the same file"
        )
    return MeshCut(match[1], int(match[2]))


def chunk_of(shard: Shape, itemsize: int, limit: int, *, is_cut: bool) -> Shape:
    """The shape of a chunk of about ``limit`` bytes: some rows of what one device has of a tensor.

    Args:
        shard: the shape of that.
        itemsize: bytes of an element.
        limit: bytes of a chunk.
        is_cut: whether the rows are divided among the devices: a chunk then holds none of two devices, so that their
            number divides the shard's.
    """
    if not shard:
        return ()
    wanted = min(max(1, limit // max(1, prod(shard[1:]) * itemsize)), max(1, shard[0]))
    if not is_cut or shard[0] % wanted == 0:
        return (wanted, *shard[1:])
    divisors = [rows for rows in range(1, shard[0] + 1) if shard[0] % rows == 0]
    smaller, larger = max(rows for rows in divisors if rows <= wanted), min(rows for rows in divisors if rows > wanted)
    # Of a prime number of rows a chunk would be one row: many small ones take longer than a large one.
    return (smaller if smaller * _SMALLEST >= wanted else larger, *shard[1:])


_SMALLEST = 16
"""A chunk is no less than this part of what is wanted."""
