"""How a checkpoint's tensors are cut for the devices of a mesh, where a file is written for them. Needs no devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from port.errors import UsageError

Shape = tuple[int, ...]


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


def chunk_of(shard: Shape, itemsize: int, limit: int) -> Shape:
    """The largest chunk of at most ``limit`` bytes, or of one row, of which a shard holds a whole number."""
    if not shard:
        return ()
    row = prod(shard[1:]) * itemsize
    rows = max(
        (rows for rows in range(1, shard[0] + 1) if shard[0] % rows == 0 and rows * row <= limit),
        default=1,
    )
    return (rows, *shard[1:])
