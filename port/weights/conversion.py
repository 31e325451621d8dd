"""From a checkpoint file to a file of the other framework's, a tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from port.errors import NoPair, UnknownChoice, UsageError, WeightsMismatch
from port.mapping import (
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
from port.mapping.file import encoded_mapping
from port.mapping.flatten import suspects
from port.mapping.lacking import lacking
from port.weights.carrying import Carrying, floating
from port.weights.checkpoint import write_checkpoint
from port.weights.direction import wrong_way
from port.weights.formats import format_of
from port.weights.record import UNKNOWN, Record
from port.weights.sources import Source, opened, unwrapped_names
from port.weights.tensors import Tensor
from port.weights.variables import Rename, Shapes
from port.weights.way_back import ABSENT, HIDDEN, WayBack, part_of, way_back
from port.weights.whole import whole

SHOWN = 6
"""How many frozen parameters are named."""
Found = TypeVar("Found")


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
    partial: bool = False,
    format: str | None = None,
    dtype: str | None = None,
    max_shard_size: int | None = None,
    key: str | None = None,
    overwrite: bool = False,
    save_mapping: Path | str | None = None,
    beside: Callable[[Mapping], list[Tensor]] | None = None,
) -> Conversion:
    """Convert a torch checkpoint to Flax variables, or back.

    Flax variables say in their file's metadata how they were made, so that the way back needs nothing else.

    Args:
        source: a checkpoint file or folder; only one tensor of it is in memory at a time.
        out: what to write; None to write nothing and tell what would be done.
        torch: a torch module to go by (on the meta device: nothing but its structure is looked at), or a `Guide`.
        flax: an nnx module, a Linen module (with ``inputs``), or a `Guide`. Either side is enough.
        inputs: an example input of a Linen module.
        rename: where names differ, from torch's to Flax's: see `port.mapping.between`.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it.
        reverse: from Flax to torch: the mapping is still told from torch to Flax.
        partial: the file may hold a part of the model: what it lacks is listed.
        format: of the result, as `port.weights.formats` has them; by default as the suffix of ``out`` says.
        dtype: what to cast floating tensors to; by default each keeps its own, bit for bit.
        max_shard_size: bytes of one file of the result, at most; safetensors only.
        key: where in a training checkpoint the state dict is, if it holds several.
        overwrite: whether ``out`` and ``save_mapping`` may be there already.
        save_mapping: where the mapping from torch to Flax is written, beside ``out``: both are, or neither.
        beside: what else belongs into the result, of the mapping that is found: an optimizer's state.

    Raises:
        WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message; or a tensor that does not
            come back as it was. Nothing is written.
        BrokenWeights: a file that cannot be read or written.
        NoPair: layers that no pair speaks of.
        UsageError: options that cannot be.
    """
    format = format_of(out, format, reverse=reverse)
    if dtype is not None and dtype not in floating():
        raise UnknownChoice("dtype", dtype, floating())
    if save_mapping is not None:
        _see_that_it_is_apart(Path(save_mapping), Path(source), out)
    rules = rules_of(rename)
    left = None if torch is None else guide_of_torch(torch)
    right = None if flax is None else guide_of_flax(flax, inputs)
    with opened(source, key=key) as given:
        back = None
        if reverse:
            back = _fitting(
                given, lambda: way_back(given, left, right, rename=rules, fold=fold, partial=partial), reverse=True
            )
            tensors, mapping = back.tensors, back.mapping
        else:
            tensors, mapping = _fitting(
                given, lambda: _to_flax(given, left, right, rules, fold, partial), reverse=False
            )
        carrying = Carrying(tensors, dtype, reverse, None if back is None else back.check)
        done = _told(tensors, mapping, back, dtype, carrying.nan, partial=partial)
        torchs = mapping.inverse() if reverse else mapping
        if isinstance(rules, Rules):
            done.remarks += Renaming(rules.rename).idle(name for entry in torchs.entries for name in entry.sources)
        if left is not None and right is not None:
            done.remarks += lacking(torchs.entries, left, right)
        if left is not None and not reverse and beside is None:  # an optimizer that goes along knows it
            done.remarks += _of_frozen(done.moved, left)
        guide = right if right is not None and right.layers else left
        if guide is not None and not reverse:
            done.remarks += map(str, suspects(done.moved, left if left is not None and left.layers else guide))
        if out is not None:
            names = (lambda entry, target: target) if reverse else _in_collection
            pending = list(carrying.pending(done.moved, names))
            pending += [] if beside is None else beside(mapping)
            done.out = Path(out)
            with _saved_beside(torchs, save_mapping, overwrite=overwrite):
                done.files = write_checkpoint(
                    done.out,
                    pending,
                    format=format,
                    max_shard_size=max_shard_size,
                    metadata=_metadata(done, tensors, carrying, format),
                    overwrite=overwrite,
                )
            done.remarks += [] if back is None else back.changed()
    return done


def _of_frozen(entries: list[Entry], torch: Guide) -> list[str]:
    """Which parameters torch does not train, and Flax would."""
    frozen = {name for name, leaf in torch.leaves.items() if leaf.is_frozen}
    names = [entry.sources[0] for entry in entries if entry.collection == "params" and frozen & set(entry.sources)]
    if not names:
        return []
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return [
        f"torch does not train {', '.join(names[:SHOWN])}{more} (requires_grad=False), and among Flax's params nothing "
        "says so: hold them as port.nn.Frozen, or leave them out of the optimizer (--optimizer, port.to_optax do)"
    ]


def _told(
    tensors: Source,
    mapping: Mapping,
    back: WayBack | None,
    dtype: str | None,
    nan: dict[str, int],
    *,
    partial: bool,
) -> Conversion:
    """What is known before anything is carried."""
    done = Conversion(
        mapping,
        {name: info.dtype.name for name, info in tensors.tensors.items()},
        dtype,
        reverse=back is not None,
        left_out=dict(tensors.left_out),
        nan=nan,
    )
    if back is not None:
        done.missing, done.remarks = back.missing, list(back.remarks)
        return done
    moved = set(done.moved)
    done.missing = {
        name: ABSENT if partial and not entry.optional else "not in the file: the model keeps its own"
        for entry in mapping.entries
        if entry not in moved
        for name in entry.sources
    }
    return done


def _metadata(done: Conversion, tensors: Source, carrying: Carrying, format: str) -> Callable[[], dict[str, str]]:
    """What the result says of itself; the fingerprints are known when its tensors have been carried."""
    if done.reverse:
        return lambda: {"format": "pt"} if format == "safetensors" else {}
    unknown = {name: UNKNOWN for entry in done.moved for name in entry.sources}
    cast = {
        name: dtype
        for name, dtype in done.dtypes.items()
        if done.dtype is not None and dtype in floating() and dtype != done.dtype
    }
    record = Record(done.mapping, unknown, cast, done.left_out, tensors.unwrapped)
    return lambda: {"format": "flax", **record.with_fingerprints(carrying.fingerprints).metadata()}


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


def _fitting(tensors: Source, find: Callable[[], Found], *, reverse: bool) -> Found:
    """What ``find`` gives; where it does not fit because the other direction was meant, that is said."""
    try:
        return find()
    except (WeightsMismatch, NoPair) as error:
        if (told := wrong_way(tensors, reverse=reverse)) is not None:
            raise UsageError(told) from error
        raise


def _to_flax(
    tensors: Source, left: Guide | None, right: Guide | None, rules: Rules | Mapping, fold: Shapes | None, partial: bool
) -> tuple[Source, Mapping]:
    """The tensors under the names that the mapping takes, and the mapping from torch to Flax, for all of them."""
    if left is None and right is None and not isinstance(rules, Mapping):
        raise UsageError(
            wrong_way(tensors, reverse=False) or "give a model to go by: --torch module:name, or --flax module:name"
        )
    if left is not None:
        tensors = tensors.without_prefixes(tuple(left.leaves)).without(left.hidden, HIDDEN)
    else:
        tensors = unwrapped_names(tensors, right, rules)
    names = tensors.guide("torch") if left is None and not partial else left
    try:
        mapping = between(names, right, rename=rules, fold=fold)
        (part_of(mapping, tensors)[0] if partial else mapping).check(tensors.shapes)
    except WeightsMismatch as error:
        if not partial and (told := _is_part(tensors, left, right, rules, fold)):
            raise WeightsMismatch(f"{error}\n{told}") from error
        raise
    return tensors, mapping


def _is_part(
    tensors: Source, left: Guide | None, right: Guide | None, rules: Rules | Mapping, fold: Shapes | None
) -> str:
    """What to do about a file that fits, but for what it lacks of the model; else nothing."""
    try:
        whole = between(left, right, rename=rules, fold=fold)
        part, lacking = part_of(whole, tensors)
        part.check(tensors.shapes)
    except (WeightsMismatch, NoPair, UsageError):
        return ""
    if not part.entries or not lacking:
        return ""
    return f"The file holds a part of the model, {len(tensors)} tensors, all of which fit: take them with --partial"


def _in_collection(entry: Entry, target: str) -> str:
    return f"{entry.collection}.{target}"
