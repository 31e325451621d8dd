"""What ``torch.save`` writes: a state dict, alone or inside a training checkpoint. Never unpickled freely."""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.weights.pickles import Refused, Walk
from port.weights.tensors import Checkpoint, TensorInfo, dtypes

if TYPE_CHECKING:
    import torch

PLACES = ("state_dict", "model", "model_state_dict", "module", "net", "ema")
"""Where training scripts put the state dict in what they save."""

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # torch/serialization.py; before it, files were tar archives
_LEGACY_PICKLES = 5  # the magic number, the protocol, the system, the object, the storages' keys
_OTHER_TENSORS = ("torch._utils._rebuild", "torch.serialization._get_layout", "torch.per_")
_SMALLEST_LIMIT = 2**20  # bytes; below it a tensor may be larger than its file, expanded from fewer elements


def open_torch(path: Path | str, *, key: str | None = None) -> Checkpoint:
    """A file of ``torch.save``, in the zip format (mapped into memory) or in the one before torch 1.6 (read whole).

    Args:
        path: the file.
        key: where in it the state dict is ("model_state_dict", or deeper, "a.b"); None: at the top, or at the one of
            `PLACES` that holds tensors.

    Raises:
        BrokenWeights: it cannot be read, or only by running what it names, which is not done.
        UsageError: several state dicts are in it, or none where ``key`` says.
    """
    path = Path(path)
    content = read_saved(path)
    state_dict, left_out = _state_dict(path, content, key)
    limit = max(path.stat().st_size, _SMALLEST_LIMIT)
    tensors: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    first: dict[tuple[Any, ...], str] = {}
    for name, value in state_dict.items():
        name = str(name)
        if name in tensors or name in left_out:
            raise BrokenWeights(f"{path}: two entries of the state dict are named {name!r}")
        if not _is_tensor(value):
            left_out[name] = f"no tensor: {type(value).__name__}" + (" with tensors in it" if _holds(value) else "")
            continue
        tensor = _checked(f"{path}: {name}", value, limit)
        tensors[name] = tensor
        identity = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.numel() and first.setdefault((*identity, tensor.dtype), name) != name:
            aliases[name] = first[(*identity, tensor.dtype)]
    infos = {name: TensorInfo(tuple(tensor.shape), _dtype(tensor)) for name, tensor in tensors.items()}
    reader: Callable[[str], np.ndarray] = lambda name: _numpy(tensors[name])  # noqa: E731
    return Checkpoint(path, "torch", infos, reader, aliases=aliases, left_out=left_out)


def read_saved(path: Path) -> Any:
    """All that ``torch.save`` wrote into a file: dicts, lists, numbers, text, tensors (mapped where they can be).

    Raises:
        BrokenWeights: it cannot be read, or only by running what it names, which is not done.
    """
    try:
        is_zip = _check(path)
    except (OSError, ValueError, EOFError, RuntimeError, BadZipFile) as error:  # zipfile raises all of these
        raise BrokenWeights(_reason(path, error)) from error
    return _load(path, is_zip)


def _check(path: Path) -> bool:
    """Look through the file without loading it; says whether it is a zip archive."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        if file.read(4) == b"PK\x03\x04":
            _check_archive(file, size)
            return True
        # A map, for a read of it gives no more than there is, and makes no room for what a broken length asks for.
        walk = Walk(cast(IO[bytes], mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), size)
        if walk.pickle() != _LEGACY_MAGIC:
            raise Refused("it is a pickle, and none that torch.save wrote")
        for _ in range(_LEGACY_PICKLES - 1):
            walk.pickle()
    return False


def _check_archive(file: BinaryIO, size: int) -> None:
    with ZipFile(file) as archive:
        entries = archive.infolist()
        packed = [entry.filename for entry in entries if entry.compress_type != ZIP_STORED]
        if packed:
            raise Refused(f"its entry {packed[0]!r:.60} is compressed, which torch.save does not do")
        if sum(entry.file_size for entry in entries) > size:
            raise Refused(f"its entries claim more bytes than the file's {size}")
        names = {entry.filename.partition("/")[2]: entry for entry in entries}
        if "constants.pkl" in names:
            raise Refused(
                "it is a TorchScript program; torch.jit.load(file).state_dict() gives the weights: torch.save those"
            )
        if "data.pkl" not in names:
            raise Refused("it is a zip archive without data.pkl, and so none that torch.save wrote")

        def on_storage(key: str, kind: str, count: int) -> None:
            if f"data/{key}" not in names:
                raise Refused(f"its entry data/{key:.40} is missing")
            held = names[f"data/{key}"].file_size
            if count and (held % count or held // count not in (1, 2, 4, 8, 16)):
                raise Refused(f"its entry data/{key:.40} has {held} bytes, and is to hold {count} of {kind}")

        Walk(BytesIO(archive.read(names["data.pkl"])), size, on_storage).pickle()


def _reason(path: Path, error: Exception) -> str:
    names = getattr(error, "names", ())
    if isinstance(error, BadZipFile):
        return (
            f"{path} is no whole file of torch.save: it begins as a zip archive, and {str(error)[:1].lower()}"
            f"{str(error)[1:]}. A download may have been cut short"
        )
    if not names:
        return f"{path} cannot be read as a file of torch.save: {getattr(error, 'strerror', None) or error}"
    if all(name.startswith(_OTHER_TENSORS) for name in names):
        return (
            f"{path} holds tensors of a kind that is not read here ({', '.join(names)}: sparse, quantized, or of "
            "another device). Save them as plain CPU tensors"
        )
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"{path} is more than tensors: to read it, Python would have to import and run what it names: {shown}. That "
        "could be anything, so such a file is never unpickled here. Load it where it was made, and save the weights "
        "alone: torch.save(model.state_dict(), …)"
    )


def _load(path: Path, is_zip: bool) -> Any:
    try:
        import torch
    except ImportError as error:
        raise UsageError(
            f"{path} is a file of torch.save, and torch, which reads it, is not installed here: install it, or convert "
            "the file to safetensors where torch is"
        ) from error

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch speaks of its own old classes
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except Exception as error:  # a broken file makes torch raise errors of every kind
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BrokenWeights(f"{path} cannot be read as a file of torch.save: {reason}") from error


def _state_dict(path: Path, content: Any, key: str | None) -> tuple[Mapping[Any, Any], dict[str, str]]:
    """The state dict, and what stands beside it."""
    if key is not None:
        return _at(path, content, key), {}
    if not isinstance(content, Mapping):
        raise BrokenWeights(f"{path} holds a {type(content).__name__}, and no state dict")
    found = [place for place in PLACES if _holds(content.get(place))]
    if len(found) > 1:
        raise UsageError(f"{path} holds several state dicts: say which with key= or --key: {', '.join(found)}")
    if found:
        beside = ", ".join(_shown(str(name) for name in content if name != found[0]))
        return content[found[0]], {beside: f"beside the state dict, which is {found[0]!r}"} if beside else {}
    if _holds(content):
        return content, {}
    others = [str(place) for place, value in content.items() if _holds(value)]
    if others:
        raise UsageError(f"{path} has tensors in places of its own: say which with key= or --key: {', '.join(others)}")
    raise BrokenWeights(f"{path} holds no tensors: at its top are {', '.join(_shown(map(str, content))) or 'none'}")


def _at(path: Path, content: Any, key: str) -> Mapping[Any, Any]:
    """Follow a key, which may have dots of its own, into dicts."""
    rest = key
    while rest:
        if not isinstance(content, Mapping):
            raise UsageError(f"{path} has nothing at {key!r}: {rest!r} would be inside a {type(content).__name__}")
        fits = [str(name) for name in content if rest == str(name) or rest.startswith(f"{name}.")]
        if not fits:
            raise UsageError(f"{path} has nothing at {key!r}; there are: {', '.join(_shown(map(str, content)))}")
        chosen = max(fits, key=len)
        content = next(value for name, value in content.items() if str(name) == chosen)
        rest = rest[len(chosen) + 1 :]
    if not _holds(content):
        raise UsageError(f"{path} has no state dict at {key!r}: it is a {type(content).__name__} without tensors")
    return content


def _shown(names: Any) -> list[str]:
    every = list(names)
    return every[:10] + ([f"and {len(every) - 10} more"] if len(every) > 10 else [])


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _holds(value: Any) -> bool:
    """Whether a value is a dict with tensors right in it."""
    return isinstance(value, Mapping) and any(map(_is_tensor, value.values()))


def _checked(where: str, tensor: torch.Tensor, limit: int) -> torch.Tensor:
    """The tensor without its gradient's bookkeeping, if it is one that can be read."""
    if tensor.layout.__repr__() != "torch.strided" or tensor.device.type != "cpu" or tensor.is_quantized:
        raise BrokenWeights(f"{where} is a {tensor.layout} tensor on {tensor.device}; plain CPU tensors are read")
    if str(tensor.dtype).removeprefix("torch.") not in dtypes():
        raise BrokenWeights(f"{where} is {tensor.dtype}, which numpy has not; save it as another dtype")
    size, held = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
    if max(size, held) > limit:
        raise BrokenWeights(
            f"{where} of shape {tuple(tensor.shape)} is {size} bytes over a storage of {held}, and the whole file has "
            "fewer than that: a small file that asks for so much memory is not opened"
        )
    return tensor.detach().resolve_conj().resolve_neg()


def _dtype(tensor: torch.Tensor) -> np.dtype:
    return dtypes()[str(tensor.dtype).removeprefix("torch.")]


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    """The same memory as numpy; what torch's numpy() does not know goes through integers of the same width."""
    import torch

    dtype = _dtype(tensor)
    if dtype.isbuiltin == 1:
        array = tensor.numpy()
    else:
        array = tensor.view({1: torch.uint8, 2: torch.int16}[dtype.itemsize]).numpy().view(dtype)
    array.flags.writeable = False
    return array
