"""Folders of ``torch.distributed.checkpoint``, as FSDP and DDP write them: ``.metadata`` and ``__*_*.distcp``.

Each chunk of a tensor is what ``torch.save`` writes, at a place in one of the files. Of a part of a tensor the chunks
are read that it touches, and of these no more than that.
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
"""What zipfile and pickle raise of broken files; `port.weights.pickles.Refused` is a ValueError."""


def is_dcp(folder: Path) -> bool:
    """Whether a folder is one of torch.distributed.checkpoint."""
    return (folder / METADATA_FILE).is_file()


def open_dcp(folder: Path | str) -> tuple[Checkpoint, tuple[str, ...]]:
    """A folder that torch.distributed.checkpoint wrote; no torch is needed, and nothing is unpickled freely.

    Returns:
        the checkpoint, and the keys at the top of the state dict with tensors beneath: ``("model", "optim")``.

    Raises:
        BrokenWeights: the folder is none of them, or not whole: all that is wrong, at once.
    """
    folder = Path(folder)
    found = read_metadata(folder)
    return _checkpoint(folder, found), _tops(found)


def the_model_in(folder: Path, tops: tuple[str, ...], places: tuple[str, ...]) -> str | None:
    """The key of the model's state dict; None where the tensors are not nested.

    Raises:
        UsageError: several could be meant.
    """
    known = [top for top in tops if top in places]
    if len(known) == 1:
        return known[0]
    if len(known) > 1 or tops:
        raise UsageError(
            f"{folder} holds several state dicts: say which with key= or --key: {', '.join(known or tops)}"
        )
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
                raise BrokenWeights(f"{where} is no tensor")
            array = saved.array(tensor, must_align=False)
        except _ERRORS as error:
            raise BrokenWeights(f"{where} cannot be read: {error or type(error).__name__}") from error
        if (array.shape, array.dtype) != (shape_of(chunk.box), found.tensors[name].dtype):
            raise BrokenWeights(
                f"{where} is {array.dtype} of shape {array.shape}, and is said to be {found.tensors[name].dtype} of "
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
        left_out=dict.fromkeys(found.others, "no tensor"),
        box_reader=read_box,
    )


def _saved(data: mmap.mmap, chunk: Chunk) -> Saved:
    part = memoryview(data)[chunk.offset : chunk.offset + chunk.length]
    return look_through_archive(cast(IO[bytes], _Window(part)), part)


class _Window(io.RawIOBase):
    """A part of a mapped file as a file: nothing of it is copied before it is read."""

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
