"""Reads files of ``torch.save``: a state dict, alone or inside a training checkpoint. Never unpickled freely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.moves.boxes import cut
from port.weights.box_files import copied
from port.weights.pickles import Refused
from port.weights.saved_objects import SavedTensor, Stub
from port.weights.tensors import Checkpoint, TensorInfo, dtypes
from port.weights.torch_storages import Saved, look_through
from port.weights.torchscript import program_state

Result = TypeVar("Result")

PLACES = ("state_dict", "model", "model_state_dict", "module", "net", "ema")
"""The usual keys of the state dict in a training checkpoint."""

_OTHER_TENSORS = ("torch._utils._rebuild", "torch.serialization._get_layout", "torch.per_")
_FLAT = "_flat_param"
_SHARDED = ("torch.distributed.",)
_SMALLEST_LIMIT = 2**20  # bytes; below it a tensor may be larger than its file, expanded from fewer elements
_ERRORS = (OSError, ValueError, EOFError, RuntimeError, BadZipFile, TypeError, LookupError, AttributeError, MemoryError)
"""What zipfile and pickle raise for broken files; `port.weights.pickles.Refused` is a ValueError."""


def open_torch(path: Path | str, *, key: str | None = None) -> Checkpoint:
    """Open a file of ``torch.save``: in the zip format or the one before torch 1.6, or a TorchScript program's.

    It is mapped into memory and needs no torch. Objects other than tensors and plain data are never made: only the
    state dict must be free of them.

    Args:
        path: the file.
        key: the key of the state dict ("model_state_dict", or deeper, "a.b"); None: at the top, or at the one of
            `PLACES` that has tensors.

    Raises:
        BrokenWeights: it cannot be read, or only by running what it names, which is not done.
        UsageError: there are several state dicts, or none at ``key``.
    """
    path = Path(path)
    saved = _attempt(path, lambda: look_through(path))
    content = _attempt(path, lambda: saved.content(lambda tensor: tensor))
    state_dict: Mapping[Any, Any]
    if saved.code is not None:
        state_dict, left_out = _program(path, content, saved.code, key)
    else:
        state_dict, left_out = _state_dict(path, content, key, saved.names)
    if flat := [name for name in map(str, state_dict) if name.endswith(_FLAT)]:
        raise BrokenWeights(
            f"{path} has flat parameters of FullyShardedDataParallel ({flat[0]}), each many tensors of one rank "
            "concatenated: save it again with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT)"
        )
    limit = max(path.stat().st_size, _SMALLEST_LIMIT)
    tensors: dict[str, SavedTensor] = {}
    aliases: dict[str, str] = {}
    first: dict[SavedTensor, str] = {}
    for name, value in state_dict.items():
        name = str(name)
        if name in tensors or name in left_out:
            raise BrokenWeights(f"{path}: two entries of the state dict are named {name!r}")
        if not _is_tensor(value):
            left_out[name] = f"not a tensor: {_kind(path, value)}" + (" with tensors in it" if _holds(value) else "")
            continue
        tensors[name] = _checked(f"{path}: {name}", value, saved, limit)
        if 0 not in value.shape and first.setdefault(value, name) != name:
            aliases[name] = first[value]
    infos = {name: TensorInfo(tensor.shape, dtypes()[tensor.dtype]) for name, tensor in tensors.items()}
    return Checkpoint(
        path,
        "torch",
        infos,
        lambda name: saved.array(tensors[name]),
        aliases=aliases,
        left_out=left_out,
        content=lambda: _content(path, saved),
        box_reader=lambda name, box: copied(cut(saved.array(tensors[name]), box)),
    )


def read_saved(path: Path) -> Any:
    """Read everything that ``torch.save`` wrote: dicts, lists, numbers, text, tensors (torch's, mapped into memory).

    Raises:
        BrokenWeights: it cannot be read, or its top is of a class that would have to be run.
    """
    return _content(path, _attempt(path, lambda: look_through(path)))


def _content(path: Path, saved: Saved) -> Any:
    from port.weights.torch_arrays import as_torch_view

    content = _attempt(path, lambda: saved.content(lambda tensor: as_torch_view(_array(path, saved, tensor))))
    if isinstance(content, Stub):
        raise BrokenWeights(_named(path, saved.names))
    return content


def _attempt(path: Path, action: Callable[[], Result]) -> Result:
    try:
        return action()
    except _ERRORS as error:
        raise BrokenWeights(_reason(path, error)) from error


def _array(path: Path, saved: Saved, tensor: SavedTensor) -> np.ndarray:
    return saved.array(_checked(f"{path}: a tensor", tensor, saved, max(path.stat().st_size, _SMALLEST_LIMIT)))


def _program(path: Path, content: Any, code: dict[str, str], key: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    if key is not None:
        raise UsageError(f"{path} is a TorchScript program, with one state dict and none at {key!r}: leave that out")
    if not isinstance(content, Stub):
        raise BrokenWeights(f"{path} is a TorchScript file without a module: it has a {type(content).__name__}")
    try:
        return program_state(content, code)
    except ValueError as error:
        raise BrokenWeights(f"{path} is a TorchScript program that cannot be read: {error}") from error


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, BadZipFile):
        return (
            f"{path} is not a complete file of torch.save: it begins as a zip archive, and {str(error)[:1].lower()}"
            f"{str(error)[1:]}. A download may have been cut short"
        )
    if names := getattr(error, "names", ()):
        return _named(path, names)
    return (
        f"{path} cannot be read as a file of torch.save: "
        f"{getattr(error, 'strerror', None) or str(error) or type(error).__name__}"
    )


def _named(path: Path, names: tuple[str, ...]) -> str:
    """Explain why a file is not read whose tensors depend on what it names."""
    if any(name.startswith(_SHARDED) for name in names):
        return (
            f"{path} has tensors of torch.distributed, of which each rank has a part. Gather them on the ranks: "
            "torch.distributed.checkpoint.state_dict.get_model_state_dict, with full_state_dict=True; torch.save that"
        )
    if names and all(name.startswith(_OTHER_TENSORS) for name in names):
        return (
            f"{path} has tensors of a kind that is not read here ({', '.join(names)}: sparse, quantized, or of "
            "another device). Save them as plain CPU tensors"
        )
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"{path} is more than tensors: to read it, Python would have to import and run what it names: {shown}. That "
        "could be anything, so such a file is never unpickled here. Load it where it was made, and save the weights "
        "alone: torch.save(model.state_dict(), …)"
    )


def _state_dict(
    path: Path, content: Any, key: str | None, names: tuple[str, ...]
) -> tuple[Mapping[Any, Any], dict[str, str]]:
    """The state dict, and what is beside it."""
    if isinstance(content, Stub):
        raise BrokenWeights(_named(path, names))
    if key is not None:
        return _at(path, content, key), {}
    if not isinstance(content, Mapping):
        raise BrokenWeights(f"{path} has a {_class_of(content)}, not a state dict")
    found = [place for place in PLACES if _holds(content.get(place))]
    if len(found) > 1:
        raise UsageError(f"{path} has several state dicts: choose one with key= or --key: {', '.join(found)}")
    if found:
        beside = ", ".join(_shown(str(name) for name in content if name != found[0]))
        return content[found[0]], {beside: f"beside the state dict, which is {found[0]!r}"} if beside else {}
    if _holds(content):
        return content, {}
    others = [str(place) for place, value in content.items() if _holds(value)]
    if others:
        raise UsageError(f"{path} has tensors at unusual keys: choose one with key= or --key: {', '.join(others)}")
    if names:
        raise BrokenWeights(_named(path, names))
    raise BrokenWeights(f"{path} has no tensors: at its top are {', '.join(_shown(map(str, content))) or 'none'}")


def _at(path: Path, content: Any, key: str) -> Mapping[Any, Any]:
    """Follow a key, which may itself contain dots, into dicts."""
    rest = key
    while rest:
        if not isinstance(content, Mapping):
            raise UsageError(f"{path} has nothing at {key!r}: {rest!r} would be inside a {_class_of(content)}")
        fits = [str(name) for name in content if rest == str(name) or rest.startswith(f"{name}.")]
        if not fits:
            raise UsageError(f"{path} has nothing at {key!r}; there are: {', '.join(_shown(map(str, content)))}")
        chosen = max(fits, key=len)
        content = next(value for name, value in content.items() if str(name) == chosen)
        rest = rest[len(chosen) + 1 :]
    if not _holds(content):
        raise UsageError(f"{path} has no state dict at {key!r}: it is a {_class_of(content)} without tensors")
    return content


def _shown(names: Any) -> list[str]:
    every = list(names)
    return every[:10] + ([f"and {len(every) - 10} more"] if len(every) > 10 else [])


def _is_tensor(value: Any) -> bool:
    return isinstance(value, SavedTensor)


def _holds(value: Any) -> bool:
    """Whether a value is a dict with tensors directly in it."""
    return isinstance(value, Mapping) and any(map(_is_tensor, value.values()))


def _class_of(value: Any) -> str:
    """A value's class by its usual name."""
    for kind, name in ((SavedTensor, "Tensor"), (dict, "dict")):
        if isinstance(value, kind):
            return name
    return value.kind if isinstance(value, Stub) else type(value).__name__


def _kind(path: Path, value: Any) -> str:
    """Describe what is in a state dict but is not a tensor."""
    if not isinstance(value, Stub):
        return _class_of(value)
    if value.kind.startswith((*_OTHER_TENSORS, *_SHARDED)):
        raise BrokenWeights(_named(path, (value.kind,)))
    return f"an object of {value.kind}, which is not made here"


def _checked(where: str, tensor: SavedTensor, saved: Saved, limit: int) -> SavedTensor:
    """Check that it is a readable tensor; nothing is allocated for it."""
    if tensor.dtype not in dtypes():
        raise BrokenWeights(f"{where} is torch.{tensor.dtype}, which numpy lacks; save it as another dtype")
    size = TensorInfo(tensor.shape, dtypes()[tensor.dtype]).nbytes
    try:
        held = saved.held(tensor)
        if max(size, held) > limit:
            raise BrokenWeights(
                f"{where} of shape {tensor.shape} is {size} bytes over a storage of {held}, and the whole file has "
                "fewer than that: a small file that needs so much memory is not opened"
            )
        saved.array(tensor)
    except Refused as error:
        raise BrokenWeights(f"{where} cannot be read: {error}") from error
    return tensor
