"""Reads folders of ``torch.distributed.checkpoint``, as FSDP and DDP write them: ``.metadata`` and ``__*_*.distcp``.

Each chunk of a tensor is in the format of ``torch.save``, at an offset in one of the files. For a part of a tensor,
only the chunks that it touches are read, and no more of them than needed.
"""

from __future__ import annotations

import io
import mmap
from functools import cache
from pathlib import Path
from typing import IO, cast
from zipfile import BadZipFile

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.moves import Box
from port.moves.boxes import cut, inside, shape_of, whole
from port.weights.box_files import aligned
from port.weights.dcp_metadata import METADATA_FILE, Chunk, DistributedMetadata, read_metadata
from port.weights.saved_objects import SavedTensor
from port.weights.tensors import Checkpoint
from port.weights.torch_storages import Saved, look_through_archive

_ERRORS = (OSError, ValueError, EOFError, RuntimeError, BadZipFile, TypeError, LookupError)
"""What zipfile and pickle raise for broken files; `port.weights.pickles.Refused` is a ValueError."""


def is_dcp(folder: Path) -> bool:
    """Whether a folder is one of torch.distributed.checkpoint."""
    return (folder / METADATA_FILE).is_file()


def open_dcp(folder: Path | str) -> tuple[Checkpoint, tuple[str, ...]]:
    """Open a folder that torch.distributed.checkpoint wrote; needs no torch, and unpickles nothing freely.

    Returns:
        The checkpoint, and the keys at the top of the state dict with tensors below: ``("model", "optim")``.

    Raises:
        BrokenWeights: the folder has another format, or is incomplete; everything wrong at once.
    """
    folder = Path(folder)
    found = read_metadata(folder)
    return _checkpoint(folder, found), _tops(found)


def the_model_in(folder: Path, tops: tuple[str, ...], places: tuple[str, ...]) -> str | None:
    """Return the key of the model's state dict; None if the tensors are not nested.

    Raises:
        UsageError: several keys are possible.
    """
    known = [top for top in tops if top in places]
    if len(known) == 1:
        return known[0]
    if len(known) > 1 or tops:
        raise UsageError(f"{folder} has several state dicts: choose one with key= or --key: {', '.join(known or tops)}")
    return None


def _tops(found: DistributedMetadata) -> tuple[str, ...]:
    nested = [path[0] for name, path in found.paths.items() if name in found.tensors and len(path) > 1]
    return tuple(dict.fromkeys(nested))


def _checkpoint(folder: Path, found: DistributedMetadata) -> Checkpoint:
    @cache
    def mapped(file: str) -> mmap.mmap:
        with open(folder / file, "rb") as opened:
            return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)

    def array_of(name: str, chunk: Chunk) -> np.ndarray:
        where = f"{folder / chunk.file}: {name} at byte {chunk.offset}"
        try:
            saved = _saved(mapped(chunk.file), chunk)
            tensor = saved.content(lambda tensor: tensor)
            if not isinstance(tensor, SavedTensor):
                raise BrokenWeights(f"{where} is not a tensor")
            array = saved.array(tensor, must_align=False)
        except _ERRORS as error:
            raise BrokenWeights(f"{where} cannot be read: {error or type(error).__name__}") from error
        if (array.shape, array.dtype) != (shape_of(chunk.box), found.tensors[name].dtype):
            raise BrokenWeights(
                f"{where} is {array.dtype} of shape {array.shape}, but is declared as {found.tensors[name].dtype} of "
                f"{shape_of(chunk.box)}"
            )
        return array

    def read_box(name: str, box: Box) -> np.ndarray:
        array = aligned(shape_of(box), found.tensors[name].dtype)
        for chunk in found.chunks[name]:
            both = tuple(range(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(chunk.box, box, strict=True))
            if all(both):
                cut(array, inside(both, box))[...] = cut(array_of(name, chunk), inside(both, chunk.box))
        return array

    return Checkpoint(
        folder,
        "torch",
        found.tensors,
        lambda name: read_box(name, whole(found.tensors[name].shape)),
        left_out=dict.fromkeys(found.others, "not a tensor"),
        box_reader=read_box,
    )


def _saved(data: mmap.mmap, chunk: Chunk) -> Saved:
    part = memoryview(data)[chunk.offset : chunk.offset + chunk.length]
    return look_through_archive(cast(IO[bytes], _Window(part)), part)


class _Window(io.RawIOBase):
    """A part of a mapped file, as a file: nothing is copied before it is read."""

    def __init__(self, part: memoryview) -> None:
        self.part, self.at = part, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: len(self.part)}[whence])
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self.part[self.at : self.at + len(buffer)]
        buffer[: len(piece)] = piece
        self.at += len(piece)
        return len(piece)
