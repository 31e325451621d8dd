"""What every weights file is once it is opened: named tensors, each read when it is asked for."""

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
    """A tensor that is to be written: what it will be, and how to get it when its turn comes.

    Attributes:
        name: a dotted path.
        shape: its shape.
        dtype: its numpy dtype.
        read: gives the array.
        source_nbytes: the bytes of what it is made of, where they may be more than its own.
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
        """The bytes that are in memory to make it: its own, or those of what it is made of."""
        return max(self.nbytes, self.source_nbytes)

    def array(self) -> np.ndarray:
        """The tensor itself.

        Raises:
            BrokenWeights: ``read`` gave another shape or dtype than was promised.
        """
        array = np.asarray(self.read())
        if (array.shape, array.dtype) != (self.shape, self.dtype):
            raise BrokenWeights(
                f"{self.name} was to be {self.dtype} of shape {self.shape}, and came as {array.dtype} of shape "
                f"{array.shape}"
            )
        return array


@dataclass
class Checkpoint:
    """An opened weights file. Names, shapes and dtypes are known; of the tensors nothing has been read.

    Attributes:
        path: the file or the folder.
        format: "safetensors", "torch", "msgpack", "orbax" or "npz".
        tensors: name → shape and dtype, in the file's order.
        metadata: what the file says of itself beside its tensors; of torch files nothing.
        aliases: name → the earlier name that is the very same tensor (tied weights; torch files only).
        left_out: what is in the file and is no weight, with the reason.
        box_reader: reads a part of a tensor and no more of the file, into memory of its own; None: whole tensors alone
            are read.
        content: gives all that a file of ``torch.save`` holds, its tensors as torch's; None for other files.
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
        """One tensor, bit for bit; read-only where it lies in the mapped file.

        Raises:
            UsageError: there is no tensor of that name, or the checkpoint is closed.
            BrokenWeights: the file does not give it.
        """
        return self._open(name)(name)

    def read_box(self, name: str, box: Box) -> np.ndarray:
        """A part of a tensor, bit for bit.

        Raises:
            UsageError: there is no tensor of that name, or the checkpoint is closed.
            BrokenWeights: the file does not give it.
        """
        reader = self._open(name)
        return cut(reader(name), box) if self.box_reader is None else self.box_reader(name, box)

    def _open(self, name: str) -> Callable[[str], np.ndarray]:
        if self.reader is None:
            raise UsageError(f"{self.path} is closed: read {name} before that")
        if name not in self.tensors:
            near = get_close_matches(name, self.tensors, n=3)
            hint = f"; near: {', '.join(near)}" if near else ""
            raise UsageError(f"{self.path} holds no tensor {name!r} among its {len(self.tensors)}{hint}")
        return self.reader

    def close(self) -> None:
        """Let go of the file. Arrays that have been read stay good: each holds its piece of the mapping."""
        self.reader = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@cache
def dtypes() -> dict[str, np.dtype]:
    """Every dtype a weight may have, by the name that torch, numpy and ml_dtypes share for it.

    A list, because names come out of files: numpy would make a dtype of Python objects of the name "object".
    """
    import ml_dtypes

    own = ["bool", "float16", "float32", "float64", "complex64", "complex128"]
    own += [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    added = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
    return {name: np.dtype(name) for name in own} | {name: np.dtype(getattr(ml_dtypes, name)) for name in added}
