"""Converts tensors through a mapping's entries, each when it is needed, and releases it when it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from port.mapping import Entry
from port.mapping.entry import gather
from port.weights.accounts import Accounts, Named
from port.weights.ahead import AHEAD
from port.weights.contiguous import in_c_order
from port.weights.memory import Memory
from port.weights.sources import Source
from port.weights.tensors import Tensor, dtypes


@dataclass
class Carrying:
    """Converts one side's tensors to the other's.

    Attributes:
        tensors: the source tensors; each is read once.
        dtype: the dtype that floating tensors are cast to; None to keep theirs.
        reverse: from Flax to torch.
        accounts: where the tensors are noted; None for nowhere.
        memory: for the tensors that are made.
    """

    tensors: Source
    dtype: str | None = None
    reverse: bool = False
    accounts: Accounts | None = None
    memory: Memory = field(default_factory=Memory)

    def pending(self, entries: list[Entry], name_of: Callable[[Entry, str], str]) -> Iterator[Tensor]:
        """List the tensors to write, none of them read yet.

        Args:
            entries: the mapping's entries, from source to target.
            name_of: maps a target to its name in the file.
        """
        for entry in entries:
            shapes = entry.target_shapes(gather(entry, self.tensors.shapes))
            result = _Result(self, entry)
            infos = gather(entry, self.tensors.tensors)
            own = entry.dtypes(tuple(info.shape for info in infos), tuple(info.dtype for info in infos))
            for place, (target, shape, dtype) in enumerate(zip(entry.targets, shapes, own, strict=True)):
                cast = dtype if self.dtype is None or dtype.name not in floating() else dtypes()[self.dtype]
                yield Tensor(name_of(entry, target), shape, cast, partial(result, place), self._nbytes(entry))

    def carry(self, entry: Entry) -> tuple[np.ndarray, ...]:
        """Convert an entry's tensors."""
        is_small = self._nbytes(entry) <= AHEAD
        if self.accounts is not None and not is_small:
            self.accounts.wait()  # release what is being examined before reading more
        arrays = gather(entry, self.tensors)
        read = [pair for pair in zip(entry.sources, arrays, strict=True) if pair[0] in self.tensors]
        if self.reverse:
            # What is written is examined too: one copy in C order serves both.
            made = entry(arrays)
            if is_small:
                made = _each(lambda array: in_c_order(array, self.memory), made)
            self._note(read, lambda: zip(entry.targets, made, strict=True))
            return self._cast(made)
        if entry.is_exact:
            arrays = self._cast(arrays)
            made = entry(arrays)
            self._note(read, lambda: zip(entry.sources, arrays, strict=True))
        else:
            made = self._cast(entry(arrays))
            self._note(read, lambda: _as_it_comes_back(entry, arrays, made))
        return made

    def _nbytes(self, entry: Entry) -> int:
        """The bytes that are read for an entry."""
        return sum(self.tensors.tensors[name].nbytes for name in entry.sources if name in self.tensors)

    def _note(self, read: list[tuple[str, np.ndarray]], torchs: Callable[[], Named]) -> None:
        if self.accounts is not None:
            self.accounts.note(read, torchs)

    def _cast(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        if self.dtype is None:
            return arrays
        dtype = dtypes()[self.dtype]
        return _each(lambda array: array.astype(dtype, copy=False) if _is_floating(array) else array, arrays)


def _as_it_comes_back(entry: Entry, arrays: tuple[np.ndarray, ...], made: tuple[np.ndarray, ...]) -> Named:
    """An entry's sources as its inverse returns them, or as they were read if it returns the same bits or none."""
    if not entry.has_inverse:
        return ()
    back = arrays if entry.changes_dtype else entry.inverse()(made)
    return zip(entry.sources, back, strict=True)


class _Result:
    """An entry's arrays after its moves: made on the first access, released after the last."""

    def __init__(self, carrying: Carrying, entry: Entry) -> None:
        self.carrying, self.entry = carrying, entry
        self.made: tuple[np.ndarray, ...] = ()
        self.left = 0

    def __call__(self, place: int) -> np.ndarray:
        if not self.left:
            self.made, self.left = self.carrying.carry(self.entry), len(self.entry.targets)
        array = self.made[place]
        self.left -= 1
        if not self.left:
            self.made = ()
        return array


def _each(change: Callable[[np.ndarray], np.ndarray], arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Apply a function to the arrays; one that occurs several times (tied) stays one."""
    changed = {key: change(array) for key, array in {id(array): array for array in arrays}.items()}
    return tuple(changed[id(array)] for array in arrays)


def floating() -> list[str]:
    """The dtypes that a cast applies to."""
    return [name for name in dtypes() if name.startswith(("float", "bfloat"))]


def _is_floating(array: np.ndarray) -> bool:
    return array.dtype.name in floating()
