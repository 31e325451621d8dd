"""Opens and writes weights files of every kind: detects the kind, and writes atomically."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from port.errors import BrokenWeights, UnknownChoice, UsageError
from port.weights.adapter_folder import SAFETENSORS, is_adapter, is_adapter_alone, write_adapter
from port.weights.dcp_files import is_dcp, open_dcp, the_model_in
from port.weights.formats import FORMATS, SUFFIXES
from port.weights.hub_files import SHARD_SIZE, copy_beside, foreign_to_hub, kept_beside, write_hub
from port.weights.mesh_plan import MeshPlan
from port.weights.metadata import Metadata, as_tensor, taken_out
from port.weights.msgpack_files import open_msgpack, write_msgpack
from port.weights.npz_files import is_npz, open_npz, write_npz
from port.weights.orbax_files import ITEM, STEP, foreign_to_orbax, is_orbax, open_orbax
from port.weights.orbax_writing import write_orbax
from port.weights.other_files import what_else, what_folder
from port.weights.safetensors_files import open_safetensors, write_safetensors
from port.weights.shards import SUFFIX, is_of_sharded, open_sharded, write_sharded
from port.weights.tensors import Checkpoint, Tensor, TensorInfo, dtypes
from port.weights.torch_files import PLACES, open_torch
from port.weights.torch_writing import write_torch
from port.weights.whole import whole

__all__ = ["Checkpoint", "Tensor", "TensorInfo", "dtypes", "open_checkpoint", "write_checkpoint"]

SHARD = re.compile(r"(?P<name>.+)-\d+-of-(?P<count>\d{1,9})(?P<suffix>\.\w+)")
"""The name of one file of several."""


def open_checkpoint(path: Path | str, *, key: str | None = None) -> Checkpoint:
    """Open a weights file, or a folder of them; reads only names, shapes and dtypes.

    The format is detected by its content (safetensors, torch's zip and older format, flax's msgpack, orbax, torch's
    distributed checkpoints, or an index of shards), and by its name if the content does not tell.

    Args:
        path: the file or the folder.
        key: the key of the weights, if they are not at the top: the dict of a training checkpoint, or the prefix of
            dotted names, which is removed from the names.

    Raises:
        BrokenWeights: the file is missing, unknown, or incomplete.
        UsageError: there are several checkpoints, or none at ``key``; the path is empty.
    """
    if path == "":
        raise UsageError("the path of the checkpoint is empty: pass the file or the folder")
    path = Path(path)
    try:
        if path.is_dir():
            return _open_folder(path, key)
        with open(path, "rb") as file:
            begin = file.read(64)
    except FileNotFoundError as error:
        raise BrokenWeights(f"{path}: there is no such file or folder") from error
    except OSError as error:
        raise BrokenWeights(f"{path} cannot be read: {error.strerror or error}") from error
    if path.name.endswith(SUFFIX):
        return _under(open_sharded(path, open_checkpoint), key)
    kind = _kind(path, begin)
    if kind == "torch":
        return open_torch(path, key=key)
    if kind in ("msgpack", "npz"):
        return _under(taken_out(open_msgpack(path) if kind == "msgpack" else open_npz(path)), key)
    return _under(open_safetensors(path), key)


def _kind(path: Path, begin: bytes) -> str:
    if not begin:
        raise BrokenWeights(f"{path} is empty: expected a weights file")
    # First: its header's length may look like any other format, as 640, 0x80 0x02, looks like a pickle.
    if begin[5:8] == bytes(3) and begin[8:9] in (b"{", b" ", b"\n", b"\t", b"\r"):
        return "safetensors"
    if (what := what_else(path, begin)) is not None:
        raise BrokenWeights(f"{path} is not a weights file that can be read, but {what}")
    if begin[:4] == b"PK\x03\x04" and is_npz(path):
        return "npz"
    if begin[:4] == b"PK\x03\x04" or begin[:2] == b"\x80\x02":
        return "torch"
    named = SUFFIXES.get(path.suffix.lower())
    if named != "safetensors" and (0x80 <= begin[0] <= 0x8F or begin[0] in (0xDE, 0xDF)):
        return "msgpack"
    if named:
        return named
    raise BrokenWeights(
        f"{path} is not a known weights file: it begins with {begin[:8]!r}; expected safetensors, a file of "
        "torch.save, flax's msgpack, numpy's npz, or a folder of orbax"
    )


def _open_folder(folder: Path, key: str | None) -> Checkpoint:
    names = sorted(path.name for path in folder.iterdir())
    if is_adapter(folder) and SAFETENSORS in names:  # other files that a trainer leaves there are not weights
        return open_checkpoint(folder / SAFETENSORS, key=key)
    indexes = [name for name in names if name.endswith(SUFFIX)]
    single = [name for name in names if name in ("model.safetensors", "pytorch_model.bin", "flax_model.msgpack")]
    found = indexes or single
    # If a model is in several formats, they are the same model: safetensors is read.
    preferred = [name for name in found if ".safetensors" in name] or found
    if len(preferred) == 1:
        return open_checkpoint(folder / preferred[0], key=key)
    if preferred:
        raise UsageError(f"{folder} has several checkpoints: {', '.join(preferred)}. Name one of them")
    if is_dcp(folder):
        checkpoint, tops = open_dcp(folder)
        return _under(checkpoint, the_model_in(folder, tops, PLACES) if key is None else key)
    if is_orbax(folder):
        return _under(open_orbax(folder), key)
    if (what := what_folder(names)) is not None:
        raise BrokenWeights(f"{folder} is not a checkpoint that can be read, but {what}")
    files = [name for name in names if Path(name).suffix in SUFFIXES]
    shards = [match for match in map(SHARD.fullmatch, files) if match is not None and int(match["count"]) > 1]
    if files and len(shards) == len(files):
        index = f"{shards[0]['name']}{shards[0]['suffix']}{SUFFIX}"
        raise BrokenWeights(
            f"{folder} has {len(shards)} of the {int(shards[0]['count'])} files of a checkpoint ({files[0]}), and no "
            f"index. Copy {index} from where they are from: it says which of them has which tensor"
        )
    if len(files) == 1:
        return open_checkpoint(folder / files[0], key=key)
    if files:
        raise UsageError(f"{folder} has several weights files: {', '.join(files)}. Name one of them")
    steps = [name for name in names if is_orbax(folder / name)]
    if steps:
        raise UsageError(f"{folder} has the checkpoints of several steps: {', '.join(steps)}. Name one of them")
    raise BrokenWeights(
        f"{folder} has no checkpoint: expected a folder of orbax, an index of shards (*{SUFFIX}) or a weights file; "
        f"it has {', '.join(names[:10]) or 'nothing'}"
    )


def _under(checkpoint: Checkpoint, key: str | None) -> Checkpoint:
    """The part of a checkpoint whose names begin with ``key``, which is removed."""
    if key is None:
        return checkpoint
    prefix, read, read_box = f"{key}.", checkpoint.read, checkpoint.read_box
    tensors = {name.removeprefix(prefix): info for name, info in checkpoint.tensors.items() if name.startswith(prefix)}
    if not tensors:
        tops = sorted({name.partition(".")[0] for name in checkpoint.tensors})
        raise UsageError(
            f"{checkpoint.path} has no names that begin with {prefix!r}; they begin with {', '.join(tops)}"
        )
    left = len(checkpoint.tensors) - len(tensors)
    left_out = checkpoint.left_out | ({f"{left} tensors": f"not under {key!r}"} if left else {})
    aliases = {
        name.removeprefix(prefix): first.removeprefix(prefix)
        for name, first in checkpoint.aliases.items()
        if name.startswith(prefix) and first.startswith(prefix)
    }
    return replace(
        checkpoint,
        tensors=tensors,
        reader=lambda name: read(prefix + name),
        box_reader=None if checkpoint.box_reader is None else lambda name, box: read_box(prefix + name, box),
        # The file's metadata about all its tensors is not valid for a part of them.
        metadata={name: text for name, text in checkpoint.metadata.items() if name == "format"},
        aliases=aliases,
        left_out=left_out,
    )


def write_checkpoint(
    path: Path | str,
    tensors: Sequence[Tensor],
    *,
    format: str,
    max_shard_size: int | None = None,
    metadata: Metadata | dict[str, str] | None = None,
    overwrite: bool = False,
    mesh: MeshPlan | None = None,
    beside: Sequence[Path] = (),
    config: str | None = None,
) -> list[Path]:
    """Write tensors, each read when it is needed; readers find all of them, or the previous contents.

    Args:
        path: a file; a folder for "orbax", "hf" and "peft", and if ``max_shard_size`` is set.
        tensors: their names are dotted paths; msgpack and orbax nest them at the dots.
        format: one of `FORMATS`.
        max_shard_size: bytes of tensors per file, for "safetensors" and "hf".
        metadata: the file's metadata, or a function that returns it: called before the tensors are written and again
            after them, for what is known only then (their fingerprints); both results have the same length.
        overwrite: whether to replace an existing checkpoint. A folder that has anything else is refused; the config and
            tokenizer files of a model's folder stay, unless ``beside`` has others.
        mesh: how the tensors are sharded on the devices that "orbax" writes for.
        beside: files that "hf" copies.
        config: the text of the adapter's config, for "peft".

    Returns:
        The files that were written.

    Raises:
        UsageError: inconsistent options or names; ``path`` exists.
        BrokenWeights: a dtype that the format lacks, a tensor that differs from its declaration, or a path that cannot
            be written. Nothing is left behind then.
    """
    path = Path(path)
    get_metadata = metadata if callable(metadata) else lambda: dict(metadata or {})
    if format == "peft":
        write = _adapter_writer(max_shard_size, mesh, beside, config)
    else:
        write = _writer(format, max_shard_size, get_metadata, mesh, beside)
    twice = [name for name, count in Counter(tensor.name for tensor in tensors).items() if count > 1]
    if twice:
        raise UsageError(f"several tensors have the same name: {', '.join(twice)}")

    def may_replace(folder: Path) -> bool:
        names = [file.name for file in folder.iterdir()]
        if not names:
            return format in ("orbax", "hf", "peft") or max_shard_size is not None
        if format == "peft":
            return is_adapter_alone(folder)
        if format == "orbax":
            return not {ITEM, STEP}.isdisjoint(names) and _nothing_lost(folder, foreign_to_orbax(folder))
        if format != "hf" and max_shard_size is None:
            return False
        if not any(name.endswith(".safetensors") for name in names):
            return False
        others = sorted(name for name in names if not is_of_sharded(name))
        return _nothing_lost(folder, foreign_to_hub(folder, beside) if format == "hf" else others)

    with whole(path, overwrite=overwrite, may_replace=may_replace, can_overwrite=True) as temporary:
        write(temporary, tensors)
        if format == "hf" and path.is_dir():
            copy_beside(temporary, kept_beside(path, beside))
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def _nothing_lost(folder: Path, foreign: Sequence[str]) -> bool:
    """True if a folder has nothing but a checkpoint; otherwise raise UsageError with what would be lost."""
    if not foreign:
        return True
    more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
    raise UsageError(
        f"{folder} is a folder, and not one that the weights may replace: {foreign[0]}{more} in it is no part of a "
        "checkpoint, and would be lost. Move it elsewhere, or choose another name"
    )


def _adapter_writer(
    max_shard_size: int | None, mesh: MeshPlan | None, beside: Sequence[Path], config: str | None
) -> Callable[[Path, Sequence[Tensor]], None]:
    if config is None:
        raise UsageError("a PEFT folder has the adapter's config: pass it, or a folder to copy it from")
    if max_shard_size is not None or mesh is not None or beside:
        raise UsageError("a PEFT folder has one file of weights and the config: no shards, mesh or other files")
    return lambda path, tensors: write_adapter(path, tensors, config)


def _writer(
    format: str, max_shard_size: int | None, metadata: Metadata, mesh: MeshPlan | None, beside: Sequence[Path]
) -> Callable[[Path, Sequence[Tensor]], None]:
    if format not in FORMATS:
        raise UnknownChoice("format", format, FORMATS)
    if mesh is not None and format != "orbax":
        raise UsageError(f"mesh needs format='orbax'; {format} cannot store it: port.load reads it onto any mesh")
    if beside and format != "hf":
        raise UsageError(f"files can be copied only into a folder of the hub, format='hf'; not into {format}")
    if format == "hf":
        limit = SHARD_SIZE if max_shard_size is None else max_shard_size
        return lambda path, tensors: write_hub(path, tensors, limit, metadata, beside)
    if max_shard_size is not None:
        if format != "safetensors":
            raise UsageError(
                f"max_shard_size needs format='safetensors' (--max-shard-size, --format safetensors); {format} does "
                "not support it"
            )
        return lambda path, tensors: write_sharded(path, tensors, max_shard_size, metadata)
    match format:
        case "safetensors":
            return lambda path, tensors: write_safetensors(path, tensors, metadata)
        case "orbax":
            return lambda path, tensors: write_orbax(path, tensors, metadata, mesh)
        case "torch":
            return write_torch  # a plain state dict has no place for metadata
    write = write_msgpack if format == "msgpack" else write_npz
    return lambda path, tensors: write(path, [*tensors, *as_tensor(metadata)])
