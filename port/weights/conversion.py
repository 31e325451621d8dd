"""From a checkpoint file to a file of the other framework's, a tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from port.errors import NoPair, UnknownChoice, UsageError, WeightsMismatch
from port.mapping import (
    TORCH_ONLY,
    Entry,
    Guide,
    Mapping,
    Renaming,
    Rules,
    between,
    guide_of_flax,
    guide_of_torch,
    rules_of,
)
from port.mapping.entry import gather
from port.mapping.file import encoded_mapping
from port.mapping.flatten import suspects
from port.mapping.lacking import lacking
from port.weights.checkpoint import write_checkpoint
from port.weights.direction import wrong_way
from port.weights.not_finite import count_nan
from port.weights.sources import Source, opened, unwrapped_names
from port.weights.tensors import Tensor, dtypes
from port.weights.variables import Rename, Shapes
from port.weights.whole import whole

FORMATS = ("safetensors", "msgpack", "orbax")


@dataclass
class Conversion:
    """What a conversion did, or would do.

    Attributes:
        mapping: from the source's names to the result's.
        dtypes: the source's dtypes, by name.
        dtype: what floating tensors were cast to; None where they keep theirs.
        left_out: what was in the file and did not go over, with the reason.
        missing: what the model may have and the file has not, with what happens then.
        remarks: what a person should look at.
        nan: tensors that hold NaN (they are kept), and how many.
        reverse: whether it went from Flax to torch.
        out: where it was written; None where nothing was.
        files: the files that were written there.
    """

    mapping: Mapping
    dtypes: dict[str, str]
    dtype: str | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    nan: dict[str, int] = field(default_factory=dict)
    reverse: bool = False
    out: Path | None = None
    files: list[Path] = field(default_factory=list)

    @property
    def moved(self) -> list[Entry]:
        """The mapping's entries that were in the file."""
        return [entry for entry in self.mapping.entries if any(source in self.dtypes for source in entry.sources)]


def convert(
    source: Path | str,
    out: Path | str | None,
    *,
    torch: Any = None,
    flax: Any = None,
    inputs: Any = None,
    rename: Rename = None,
    fold: Shapes | None = None,
    reverse: bool = False,
    format: str = "safetensors",
    dtype: str | None = None,
    max_shard_size: int | None = None,
    key: str | None = None,
    overwrite: bool = False,
    save_mapping: Path | str | None = None,
    beside: Callable[[Mapping], list[Tensor]] | None = None,
) -> Conversion:
    """Convert a torch checkpoint to Flax variables, or back.

    Args:
        source: a checkpoint file or folder; only one tensor of it is in memory at a time.
        out: what to write; None to write nothing and tell what would be done.
        torch: a torch module to go by (on the meta device: nothing but its structure is looked at), or a `Guide`.
        flax: an nnx module, a Linen module (with ``inputs``), or a `Guide`. Either side is enough.
        inputs: an example input of a Linen module.
        rename: where names differ, from torch's to Flax's: see `port.mapping.between`.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it.
        reverse: from Flax to torch: the mapping is still told from torch to Flax.
        format: of the result: ``safetensors``, or of Flax variables also ``msgpack`` or ``orbax``.
        dtype: what to cast floating tensors to; by default each keeps its own, bit for bit.
        max_shard_size: bytes of one file of the result, at most; safetensors only.
        key: where in a training checkpoint the state dict is, if it holds several.
        overwrite: whether ``out`` and ``save_mapping`` may be there already.
        save_mapping: where the mapping from torch to Flax is written, beside ``out``: both are, or neither.

        beside: what else belongs into the result, of the mapping that is found: an optimizer's state.

    Raises:
        WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message; nothing is written.
        BrokenWeights: a file that cannot be read or written.
        NoPair: layers that no pair speaks of.
        UsageError: options that cannot be.
    """
    if format not in FORMATS:
        raise UnknownChoice("format", format, FORMATS)
    if reverse and format != "safetensors":
        raise UsageError(f"a torch state dict is written as safetensors, not as {format}")
    if dtype is not None and dtype not in _floating():
        raise UnknownChoice("dtype", dtype, _floating())
    if save_mapping is not None:
        _see_that_it_is_apart(Path(save_mapping), Path(source), out)
    rules = rules_of(rename)
    left = None if torch is None else guide_of_torch(torch)
    right = None if flax is None else guide_of_flax(flax, inputs)
    if left is None and right is None and not isinstance(rules, Mapping):
        raise UsageError("give a model to go by: --torch module:name, or --flax module:name")
    with opened(source, key=key) as tensors:
        tensors, mapping = _fitting(tensors, left, right, rules, fold, reverse=reverse)
        entries = list(mapping.present(tensors))
        done = Conversion(
            mapping,
            {name: info.dtype.name for name, info in tensors.tensors.items()},
            dtype,
            reverse=reverse,
            left_out=dict(tensors.left_out),
            missing={
                name: "not in the file: the model keeps its own"
                for entry in mapping.entries
                if entry not in entries
                for name in entry.sources
            },
        )
        torchs = mapping.inverse() if reverse else mapping
        if isinstance(rules, Rules):
            done.remarks += Renaming(rules.rename).idle(name for entry in torchs.entries for name in entry.sources)
        if left is not None and right is not None:
            done.remarks += lacking(torchs.entries, left, right)
        guide = right if right is not None and right.layers else left
        if guide is not None and not reverse:
            done.remarks += map(str, suspects(entries, left if left is not None and left.layers else guide))
        if out is not None:
            names = (lambda entry, target: target) if reverse else _in_collection
            pending = list(_pending(entries, tensors, dtype, names, done.nan))
            pending += [] if beside is None else beside(mapping)
            metadata = {"format": "pt" if reverse else "flax"}
            done.out = Path(out)
            with _saved_beside(torchs, save_mapping, overwrite=overwrite):
                done.files = write_checkpoint(
                    done.out,
                    pending,
                    format=format,
                    max_shard_size=max_shard_size,
                    metadata=metadata if format == "safetensors" else None,
                    overwrite=overwrite,
                )
    return done


def _see_that_it_is_apart(mapping: Path, source: Path, out: Path | str | None) -> None:
    """Refuse a mapping that would be written over the weights, or among them."""
    if out is None:
        raise UsageError("nothing is written, and so no mapping either: say where to write, or leave save_mapping out")
    place, result, read = mapping.resolve(), Path(out).resolve(), source.resolve()
    if place.is_relative_to(result) or result.is_relative_to(place):
        raise UsageError(f"the mapping would go to {mapping}, and the weights to {out}: give the mapping another place")
    if place == read or (place.is_relative_to(read) and place.exists()):
        raise UsageError(f"the mapping would go to {mapping}, where the source is: give it another place")


@contextmanager
def _saved_beside(mapping: Mapping, path: Path | str | None, *, overwrite: bool) -> Iterator[None]:
    """Write a mapping before what the block writes, and have it appear after that: there are both, or neither."""
    if path is None:
        yield
        return
    with whole(Path(path), overwrite=overwrite, may_replace=lambda folder: False, what="the mapping") as temporary:
        temporary.write_bytes(encoded_mapping(mapping))
        yield


def _fitting(
    tensors: Source, left: Guide | None, right: Guide | None, rename: Rename, fold: Shapes | None, *, reverse: bool
) -> tuple[Source, Mapping]:
    """The tensors under the names that the mapping takes, and the mapping, which takes all of them."""
    try:
        named, mapping = (_to_torch if reverse else _to_flax)(tensors, left, right, rename, fold)
        mapping.check(named.shapes)
    except (WeightsMismatch, NoPair) as error:
        if (told := wrong_way(tensors, reverse=reverse)) is not None:
            raise UsageError(told) from error
        raise
    return named, mapping


def _to_flax(
    tensors: Source, left: Guide | None, right: Guide | None, rename: Rename, fold: Shapes | None
) -> tuple[Source, Mapping]:
    """The tensors under the names that the mapping takes, and the mapping from torch to Flax."""
    if left is not None:
        tensors = tensors.without_prefixes(tuple(left.leaves))
        return tensors, between(left, right, rename=rename, fold=fold)
    rules = rules_of(rename)
    if right is not None or isinstance(rules, Mapping):
        tensors = unwrapped_names(tensors, right, rules)
    return tensors, between(tensors.guide("torch"), right, rename=rules, fold=fold)


def _to_torch(
    tensors: Source, left: Guide | None, right: Guide | None, rename: Rename, fold: Shapes | None
) -> tuple[Source, Mapping]:
    """The variables under their paths, what was kept for the way back beside them, and the mapping back."""
    variables = tensors.in_collections(lambda collection: collection != TORCH_ONLY)
    kept = tensors.in_collections(lambda collection: collection == TORCH_ONLY)
    mapping = between(left, right if right is not None else variables.guide("flax"), rename=rename, fold=fold)
    known = {source for entry in mapping.entries if entry.collection == TORCH_ONLY for source in entry.sources}
    extra = tuple(Entry((name,), (name,), collection=TORCH_ONLY) for name in kept if name not in known)
    return variables.beside(kept), Mapping((*mapping.inverse().entries, *extra))


def _in_collection(entry: Entry, target: str) -> str:
    return f"{entry.collection}.{target}"


def _pending(
    entries: list[Entry],
    tensors: Source,
    dtype: str | None,
    name_of: Callable[[Entry, str], str],
    nan: dict[str, int],
) -> Iterator[Tensor]:
    known = tensors.shapes
    for entry in entries:
        result = _Carried(entry, tensors, dtype, nan)
        shapes = entry.target_shapes(gather(entry, known))
        for place, (target, shape) in enumerate(zip(entry.targets, shapes, strict=True)):
            source = tensors.tensors[next(name for name in entry.sources if name in tensors)].dtype
            cast = source if dtype is None or source.name not in _floating() else dtypes()[dtype]
            yield Tensor(name_of(entry, target), shape, cast, partial(result, place))


class _Carried:
    """An entry's arrays after its moves: made for the first that is asked for, let go with the last."""

    def __init__(self, entry: Entry, tensors: Source, dtype: str | None, nan: dict[str, int]) -> None:
        self.entry, self.tensors, self.dtype, self.nan = entry, tensors, dtype, nan
        self.made: tuple[np.ndarray, ...] = ()
        self.left = 0

    def __call__(self, place: int) -> np.ndarray:
        if not self.left:
            arrays = gather(self.entry, self.tensors)
            for name, array in zip(self.entry.sources, arrays, strict=True):
                if name in self.tensors and (count := count_nan(array)):
                    self.nan[name] = count
            self.made, self.left = self.entry(arrays), len(self.entry.targets)
        array = self.made[place]
        self.left -= 1
        if not self.left:
            self.made = ()
        if self.dtype is not None and array.dtype.name in _floating():
            array = array.astype(dtypes()[self.dtype], copy=False)
        return array


def _floating() -> list[str]:
    return [name for name in dtypes() if name.startswith(("float", "bfloat"))]
