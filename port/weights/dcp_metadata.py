"""The metadata of a ``torch.distributed.checkpoint`` folder: which tensors, in which chunks, at which offsets.

Its ``.metadata`` is a pickle of a few dataclasses (torch/distributed/checkpoint/metadata.py). It is walked first and
then read with stubs in their places: nothing that it names is imported or run.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from port.errors import BrokenWeights
from port.moves import Box
from port.moves.boxes import size_of, whole
from port.weights.pickles import Refused, Walk
from port.weights.saved_objects import PickledName, Stub, unpickled
from port.weights.tensors import TensorInfo, dtypes

METADATA_FILE = ".metadata"
_LARGEST = 2**28  # bytes
_ROOM = "torch.distributed.checkpoint."
_ERRORS = (Refused, ValueError, TypeError, LookupError, AttributeError, EOFError, RecursionError, OverflowError)
"""What a broken pickle raises, and what missing fields of the dataclasses raise."""


@dataclass(frozen=True)
class Chunk:
    """A part of a tensor, and its position: ``length`` bytes of a file from ``offset`` on, in torch.save's format."""

    box: Box
    file: str
    offset: int
    length: int


@dataclass(frozen=True)
class DistributedMetadata:
    """The contents of the folder.

    Attributes:
        tensors: name → shape and dtype.
        chunks: name → its chunks, which fill it.
        others: names of what is not a tensor.
        paths: name → the keys of the nested state dict that was saved; empty if the folder does not have them.
    """

    tensors: dict[str, TensorInfo]
    chunks: dict[str, tuple[Chunk, ...]]
    others: tuple[str, ...]
    paths: dict[str, tuple[str, ...]]


def read_metadata(folder: Path) -> DistributedMetadata:
    """Read a folder's metadata; reports everything wrong with it at once.

    Raises:
        BrokenWeights: it cannot be read; chunks are missing, overlap, or are not in the folder's files.
    """
    path = folder / METADATA_FILE
    try:
        if path.stat().st_size > _LARGEST:
            raise Refused(f"it has more than {_LARGEST} bytes")
        pickle = path.read_bytes()
        Walk(BytesIO(pickle), len(pickle), stubs=True, newer=True).pickle()
        content = _state(unpickled(BytesIO(pickle), lambda tensor: tensor), "metadata.Metadata")
        places = _places(content["storage_data"])
        named = dict(content["state_dict_metadata"])
        others = tuple(str(name) for name, value in named.items() if _is(value, "metadata.BytesStorageMetadata"))
        declared = {str(name): _tensor(value) for name, value in named.items() if str(name) not in others}
        paths = _paths(content.get("planner_data"))
    except OSError as error:
        raise BrokenWeights(f"{path} cannot be read: {error.strerror or error}") from error
    except _ERRORS as error:
        raise BrokenWeights(
            f"{path} cannot be read as the metadata of torch.distributed.checkpoint: {error or type(error).__name__}"
        ) from error
    sizes = {file.name: file.stat().st_size for file in folder.iterdir() if file.is_file()}
    problems: list[str] = []
    tensors: dict[str, TensorInfo] = {}
    chunks: dict[str, tuple[Chunk, ...]] = {}
    for name, (shape, dtype, boxes) in declared.items():
        if dtype not in dtypes():
            problems.append(f"{name} is torch.{dtype}, which numpy lacks")
            continue
        tensors[name] = TensorInfo(shape, dtypes()[dtype])
        found = [places.get((name, tuple(axis.start for axis in box))) for box in boxes]
        chunks[name] = tuple(Chunk(box, *place) for box, place in zip(boxes, found, strict=True) if place is not None)
        problems += _wrong(name, shape, boxes, chunks[name], sizes)
    if problems:
        raise BrokenWeights(f"{folder} is not a complete checkpoint:\n  " + "\n  ".join(dict.fromkeys(problems)))
    return DistributedMetadata(tensors, chunks, others, paths)


def _wrong(
    name: str, shape: tuple[int, ...], boxes: list[Box], chunks: tuple[Chunk, ...], sizes: dict[str, int]
) -> list[str]:
    """List what is wrong with a tensor's chunks."""
    if len(chunks) < len(boxes):
        return [f"{name}: of {len(boxes)} chunks {len(boxes) - len(chunks)} are missing"]
    entire = whole(shape)
    outside = any(a.start < 0 or a.stop > b.stop for box in boxes for a, b in zip(box, entire, strict=True))
    apart = all(_apart(box, other) for place, box in enumerate(boxes) for other in boxes[:place])
    if outside or not apart or sum(map(size_of, boxes)) != size_of(entire):
        return [f"{name} of shape {shape}: its chunks do not cover it, each element once"]
    wrong = []
    for chunk in chunks:
        if chunk.file not in sizes:
            wrong.append(f"{chunk.file!r} is not a file of the folder, but {name} should be in it")
        elif chunk.offset < 0 or chunk.length < 0 or chunk.offset + chunk.length > sizes[chunk.file]:
            wrong.append(
                f"{chunk.file} has {sizes[chunk.file]} bytes, but {name} should reach to byte "
                f"{chunk.offset + chunk.length}: it may have been cut short"
            )
    return wrong


def _apart(box: Box, other: Box) -> bool:
    """Whether two boxes have no element in common."""
    return any(a.stop <= b.start or b.stop <= a.start for a, b in zip(box, other, strict=True))


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, Stub) and value.kind == _ROOM + kind


def _state(value: Any, kind: str) -> Any:
    """The state of an object of one of the dataclasses."""
    if not _is(value, kind):
        raise Refused(f"expected {kind}, but found {getattr(value, 'kind', type(value).__name__)}")
    return value.state or {}


def _places(storage: Any) -> dict[tuple[str, tuple[int, ...]], tuple[str, int, int]]:
    """A tensor's name and a chunk's begin → file, offset and length."""
    places = {}
    for index, value in dict(storage).items():
        index, info = _state(index, "metadata.MetadataIndex"), _state(value, "filesystem._StorageInfo")
        if info.get("transform_descriptors"):
            raise Refused(f"{index['fqn']} went through {info['transform_descriptors']}: save it without")
        begin = _numbers(index.get("offset") or ())
        offset, length = _numbers((info["offset"], info["length"]))
        places[str(index["fqn"]), begin] = (str(info["relative_path"]), offset, length)
    return places


def _tensor(value: Any) -> tuple[tuple[int, ...], str, list[Box]]:
    state = _state(value, "metadata.TensorStorageMetadata")
    properties = _state(state["properties"], "metadata.TensorProperties")
    dtype = properties[0] if isinstance(properties, tuple) else properties["dtype"]
    if not isinstance(dtype, PickledName):
        raise Refused("a tensor does not say its dtype")
    boxes = []
    shape = _numbers(state["size"])
    for each in state["chunks"]:
        chunk = _state(each, "metadata.ChunkStorageMetadata")
        begins, sizes = _numbers(chunk["offsets"]), _numbers(chunk["sizes"])
        if not len(begins) == len(sizes) == len(shape):
            raise Refused(f"a chunk of a tensor of shape {shape} begins at {begins} and is of {sizes}")
        boxes.append(tuple(range(begin, begin + size) for begin, size in zip(begins, sizes, strict=True)))
    return shape, dtype.name.removeprefix("torch."), boxes


def _paths(planner: Any) -> dict[str, tuple[str, ...]]:
    """Each tensor's keys in the nested dict; notes of another planner do not have them."""
    if not isinstance(planner, dict):
        return {}
    return {str(name): tuple(map(str, path)) for name, path in planner.items() if isinstance(path, tuple)}


def _numbers(values: Any) -> tuple[int, ...]:
    if not isinstance(values, tuple) or not all(type(value) is int and value >= 0 for value in values):
        raise Refused(f"sizes must be whole numbers of 0 or more, but are {values!r:.60}")
    return values
