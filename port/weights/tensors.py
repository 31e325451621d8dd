"""The common interface of opened weights files: named tensors, each read when it is needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.moves import Box
from port.moves.boxes import cut


@dataclass(frozen=True)
class TensorInfo:
    """A tensor's shape and numpy dtype (ml_dtypes' for bfloat16 and the 8-bit floats)."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Its size in bytes, without gaps."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Tensor:
    """A tensor to be written: its declaration, and how to read it when needed.

    Attributes:
        name: a dotted path.
        shape: its shape.
        dtype: its numpy dtype.
        read: returns the array.
        source_nbytes: the bytes of what it is made from, if they may be more than its own.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[], np.ndarray] = field(repr=False)
    source_nbytes: int = 0

    @property
    def nbytes(self) -> int:
        """Its size in bytes, without gaps."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def needs(self) -> int:
        """The bytes in memory while it is made: its own, or those of what it is made from."""
        return max(self.nbytes, self.source_nbytes)

    def array(self) -> np.ndarray:
        """Read the tensor.

        Raises:
            BrokenWeights: ``read`` returned another shape or dtype than declared.
        """
        array = np.asarray(self.read())
        if (array.shape, array.dtype) != (self.shape, self.dtype):
            raise BrokenWeights(
                f"{self.name} was declared as {self.dtype} of shape {self.shape}, but read as {array.dtype} of shape "
                f"{array.shape}"
            )
        return array


@dataclass
class Checkpoint:
    """An opened weights file. Names, shapes and dtypes are known; no tensor has been read.

    Attributes:
        path: the file or the folder.
        format: "safetensors", "torch", "msgpack", "orbax" or "npz".
        tensors: name → shape and dtype, in the file's order.
        metadata: the file's metadata; empty for torch files.
        aliases: name → the earlier name of the very same tensor (tied weights; torch files only).
        left_out: what is in the file but is not a weight, with the reason.
        box_reader: reads only a part of a tensor, into separate memory; None if only whole tensors can be read.
        content: returns everything in a file of ``torch.save``, its tensors as torch's; None for other files.
    """

    path: Path
    format: str
    tensors: dict[str, TensorInfo]
    reader: Callable[[str], np.ndarray] | None = field(repr=False)
    metadata: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    content: Callable[[], Any] | None = field(default=None, repr=False)
    box_reader: Callable[[str, Box], np.ndarray] | None = field(default=None, repr=False)

    def read(self, name: str) -> np.ndarray:
        """Read one tensor, bit for bit; read-only if it is in the mapped file.

        Raises:
            UsageError: there is no tensor with that name, or the checkpoint is closed.
            BrokenWeights: the file cannot be read.
        """
        return self._open(name)(name)

    def read_box(self, name: str, box: Box) -> np.ndarray:
        """Read a part of a tensor, bit for bit.

        Raises:
            UsageError: there is no tensor with that name, or the checkpoint is closed.
            BrokenWeights: the file cannot be read.
        """
        reader = self._open(name)
        return cut(reader(name), box) if self.box_reader is None else self.box_reader(name, box)

    def _open(self, name: str) -> Callable[[str], np.ndarray]:
        if self.reader is None:
            raise UsageError(f"{self.path} is closed: read {name} before that")
        if name not in self.tensors:
            near = get_close_matches(name, self.tensors, n=3)
            hint = f"; near: {', '.join(near)}" if near else ""
            raise UsageError(f"{self.path} has no tensor {name!r} among its {len(self.tensors)}{hint}")
        return self.reader

    def close(self) -> None:
        """Release the file. Arrays that have been read stay valid: each holds its piece of the mapping."""
        self.reader = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@cache
def dtypes() -> dict[str, np.dtype]:
    """Every dtype a weight may have, by the common name in torch, numpy and ml_dtypes.

    A fixed list, since names come from files: numpy would make a dtype of Python objects from the name "object".
    """
    import ml_dtypes

    own = ["bool", "float16", "float32", "float64", "complex64", "complex128"]
    own += [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    added = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
    return {name: np.dtype(name) for name in own} | {name: np.dtype(getattr(ml_dtypes, name)) for name in added}
