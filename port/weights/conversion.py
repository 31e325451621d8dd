"""Converts a checkpoint file to a file of the other framework, a tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from port.errors import NoPair, UsageError, WeightsMismatch
from port.mapping import Entry, Guide, Mapping, Renaming, Rules
from port.mapping.file import encoded_mapping
from port.mapping.flatten import suspects
from port.mapping.lacking import lacking
from port.weights.accounts import Accounts
from port.weights.adapter_config import read_adapter_config
from port.weights.adapter_files import check_adapter, opened_adapter
from port.weights.adapter_folder import CONFIG
from port.weights.adapter_transfer import adapter_transfer, folder_of_adapter
from port.weights.adapters import adapted
from port.weights.carrying import floating
from port.weights.checkpoint import write_checkpoint
from port.weights.direction import wrong_way
from port.weights.driver import Transfer, find, part_that_fits
from port.weights.formats import format_of
from port.weights.hub_files import CONFIG as HUB_CONFIG
from port.weights.hub_files import files_beside
from port.weights.mesh_plan import MeshPlan
from port.weights.options import Options
from port.weights.quantization_config import quantization_config
from port.weights.record import UNKNOWN, ConversionRecord
from port.weights.sources import Source, opened
from port.weights.tensors import Checkpoint, Tensor, TensorInfo
from port.weights.whole import whole
from port.weights.widening import blocks_said_beside, widened

OF_ADAPTER = (
    "this is the adapter alone, as port.load(model, weights, adapter=FOLDER, merge=False) puts it beside the weights; "
    "the way back is --reverse --format peft"
)
SHOWN = 6
"""How many frozen parameters a remark names."""


@dataclass
class Conversion:
    """The result of a conversion, or of a dry run.

    Attributes:
        mapping: from the source's names to the result's.
        dtypes: the source's dtypes, by name.
        dtype: the dtype that floating tensors were cast to; None if they keep theirs.
        left_out: what was in the file but was not converted, with the reason.
        missing: what the model may have but the file lacks, with the consequence.
        remarks: what the user should check.
        nan: tensors that hold NaN (they are kept), and how many.
        reverse: whether it was from Flax to torch.
        out: where it was written; None if nothing was.
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
    source: Path | str | Checkpoint,
    out: Path | str | None,
    options: Options | None = None,
    *,
    beside: Callable[[Mapping], list[Tensor]] | None = None,
    **keywords: Any,
) -> Conversion:
    """Convert a torch checkpoint to Flax variables, or back.

    Files of Flax variables store in their metadata how they were made, so that the way back needs nothing else.

    Args:
        source: a checkpoint file or folder, or an open one; few of its tensors are in memory at a time.
        out: the path to write; None to write nothing and report what would be done.
        options: the models (either side is enough), and how; or, as keywords, the fields of `Options`.
        beside: makes further tensors for the result from the mapping: an optimizer's state.
        **keywords: the fields of `Options`, instead of ``options``.

    Raises:
        WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message; or a tensor that does not
            come back as it was. Nothing is written.
        BrokenWeights: a file cannot be read or written.
        NoPair: layers that no pair covers.
        UsageError: inconsistent options.
    """
    if options is not None and keywords:
        raise UsageError(f"pass the options as one object or as keywords, not both: {', '.join(keywords)}")
    options = options or Options(**keywords)
    format = format_of(out, options.format, reverse=options.reverse)
    is_by_slash = format == "orbax" and options.format is None and str(out).endswith("/")
    if is_by_slash and options.max_shard_size is not None:
        raise UsageError(
            f"{out}: the slash at its end chooses Orbax, whose files have no size to choose. Leave out "
            f"--max-shard-size (max_shard_size=), or the slash: {str(out).rstrip('/')} is then a folder of safetensors"
        )
    along = [] if options.like is None or format == "peft" else files_beside(options.like)
    # Without a folder to copy from, a folder that is replaced keeps its own.
    config_in = options.like if options.like is not None else out if options.overwrite else None
    is_wide = format == "hf" and options.widen is not None
    if is_wide and config_in is not None and quantization_config(config_in) is not None:
        raise UsageError(
            f"{config_in}: its config.json says that the weights are quantised, but they stay widened: leave the "
            "dtype to widen to out, or use a copy of the folder without quantization_config"
        )
    if options.save_mapping is not None:
        read = source.path if isinstance(source, Checkpoint) else Path(source)
        _check_mapping_path(Path(options.save_mapping), read, out)
    with ExitStack() as files:
        found = _found(source, options, files)
        accounts = found.accounts()
        done = _known_beforehand(found, accounts)
        torchs = found.mapping.inverse() if options.reverse else found.mapping
        # An optimizer that is converted too knows what is not trained.
        done.remarks += [OF_ADAPTER] if found.adapter else _remarks(found, torchs, with_optimizer=beside is not None)
        if out is not None:
            names = (lambda entry, target: target) if options.reverse else _in_collection
            pending = list(found.carrying(accounts).pending(done.moved, names))
            pending += [] if beside is None else beside(found.mapping)
            done.out = Path(out)
            config = _adapter_config(found, pending) if format == "peft" else None
            paths = {names(entry, target): target for entry in done.moved for target in entry.targets}
            shapes = {tensor.name: tensor.shape for tensor in pending}
            plan = None if options.mesh is None else MeshPlan.of(options.mesh, shapes, paths)
            with _saved_beside(torchs, options.save_mapping, overwrite=options.overwrite):
                done.files = write_checkpoint(
                    done.out,
                    pending,
                    format=format,
                    max_shard_size=options.max_shard_size,
                    metadata=_metadata(done, found, accounts, format),
                    overwrite=options.overwrite,
                    mesh=plan,
                    beside=along,
                    config=config,
                )
            done.remarks += found.changed()
            if plan is not None:
                done.remarks += plan.remarks()
            if format == "hf" and not (done.out / HUB_CONFIG).is_file():
                done.remarks.append("no config.json is beside the weights: --like copies a model's folder's")
    return done


def _found(source: Any, options: Options, files: ExitStack) -> Transfer:
    """Determine how the source is converted: an adapter alone, or weights, with an adapter merged."""
    folder = None if options.reverse else folder_of_adapter(source)
    if folder is not None:
        if options.adapter is not None:
            raise UsageError(f"{folder} is an adapter itself: pass the weights that it is merged into")
        return adapter_transfer(files.enter_context(opened_adapter(folder)), options)
    tensors = files.enter_context(opened(source, key=options.key))
    if options.adapter is not None and options.widen is not None:
        # A merged weight cannot be separated, and is no longer quantised.
        tensors, options = widened(tensors, options.widen, blocks_said_beside(tensors)), replace(options, widen=None)
    return _fitting(adapted(tensors, options.adapter, files), options)


def _remarks(found: Transfer, torchs: Mapping, *, with_optimizer: bool) -> list[str]:
    """Remarks for the user about names and models.

    Args:
        found: how the tensors are converted.
        torchs: the mapping from torch to Flax.
        with_optimizer: whether an optimizer's state is converted with them.
    """
    options, entries = found.options, found.entries
    left, right = options.guides
    remarks: list[str] = []
    if isinstance(options.rules, Rules):
        remarks += Renaming(options.rules.rename).idle(name for entry in torchs.entries for name in entry.sources)
    if left is not None and right is not None:
        remarks += lacking(torchs.entries, left, right)
    if options.adapter is not None:
        remarks.append(f"the adapter {options.adapter} is merged into the weights: on the way back they come merged")
    if options.reverse:
        return remarks
    if left is not None and not with_optimizer:
        remarks += _of_frozen(entries, left)
    guide = right if right is not None and right.layers else left
    if guide is not None:
        remarks += map(str, suspects(entries, left if left is not None and left.layers else guide))
    return remarks


def _of_frozen(entries: list[Entry], torch: Guide) -> list[str]:
    """A remark on parameters that torch does not train, and Flax would."""
    frozen = {name for name, leaf in torch.leaves.items() if leaf.is_frozen}
    names = [entry.sources[0] for entry in entries if entry.collection == "params" and frozen & set(entry.sources)]
    if not names:
        return []
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return [
        f"torch does not train {', '.join(names[:SHOWN])}{more} (requires_grad=False), and among Flax's params nothing "
        "says so: hold them as port.nn.Frozen, or leave them out of the optimizer (--optimizer, port.to_optax do)"
    ]


def _known_beforehand(found: Transfer, accounts: Accounts) -> Conversion:
    """The result's fields that are known before anything is converted."""
    return Conversion(
        found.mapping,
        {name: info.dtype.name for name, info in found.tensors.tensors.items()},
        found.options.dtype,
        reverse=found.options.reverse,
        left_out=dict(found.tensors.left_out),
        missing=found.missing,
        remarks=[] if found.back is None else list(found.back.remarks),
        nan=accounts.nan,
    )


def _adapter_config(found: Transfer, tensors: list[Tensor]) -> str:
    """The config of the adapter that is written: from the folder that was passed, or from the file."""
    record, like = found.tensors.record, found.options.like
    if like is not None:
        config = read_adapter_config(Path(like)).text
    elif record is not None and record.adapter:
        config = record.adapter
    else:
        raise UsageError(
            f"{found.tensors.origin} does not say which adapter it was made from: pass the folder to copy {CONFIG} "
            "from (--like FOLDER)"
        )
    check_adapter(config, {tensor.name: TensorInfo(tensor.shape, tensor.dtype) for tensor in tensors})
    return config


def _metadata(done: Conversion, found: Transfer, accounts: Accounts, format: str) -> Callable[[], dict[str, str]]:
    """The result's metadata; the fingerprints are known once its tensors have been converted."""
    if done.reverse:
        return lambda: {"format": "pt"} if format in ("safetensors", "hf") else {}
    unknown = {name: UNKNOWN for entry in done.moved for name in entry.sources}
    cast = {
        name: dtype
        for name, dtype in done.dtypes.items()
        if done.dtype is not None and dtype in floating() and dtype != done.dtype
    }
    unwrapped = found.tensors.unwrapped
    record = ConversionRecord(done.mapping, unknown, cast, done.left_out, unwrapped, adapter=found.adapter)
    said = {"format": "flax", **found.options.arguments.metadata()}
    return lambda: {**said, **record.with_fingerprints(accounts.fingerprints).metadata()}


def _check_mapping_path(mapping: Path, source: Path, out: Path | str | None) -> None:
    """Check that a mapping is not written over the weights, or among them."""
    if out is None:
        raise UsageError("nothing is written, so no mapping either: pass a path to write to, or leave save_mapping out")
    place, result, read = mapping.resolve(), Path(out).resolve(), source.resolve()
    if place.is_relative_to(result) or result.is_relative_to(place):
        raise UsageError(f"the mapping would go to {mapping}, and the weights to {out}: choose another path for it")
    if place == read or (place.is_relative_to(read) and place.exists()):
        raise UsageError(f"the mapping would go to {mapping}, where the source is: choose another path for it")


@contextmanager
def _saved_beside(mapping: Mapping, path: Path | str | None, *, overwrite: bool) -> Iterator[None]:
    """Write a mapping before what the block writes, and rename it after that: both appear, or neither."""
    if path is None:
        yield
        return
    with whole(
        Path(path), overwrite=overwrite, may_replace=lambda folder: False, what="the mapping", can_overwrite=True
    ) as temporary:
        temporary.write_bytes(encoded_mapping(mapping))
        yield


def _fitting(tensors: Source, options: Options) -> Transfer:
    """Determine how the tensors are converted; if they do not fit, say what may have been meant."""
    try:
        return find(tensors, options)
    except (WeightsMismatch, NoPair) as error:
        if (message := wrong_way(tensors, reverse=options.reverse)) is not None:
            raise UsageError(message) from error
        is_mismatch = isinstance(error, WeightsMismatch) and not (options.reverse or options.partial)
        if is_mismatch and (count := part_that_fits(tensors, options)):
            raise WeightsMismatch(
                f"{error}\nThe file has a part of the model, {count} tensors, all of which fit: accept them with "
                "--partial"
            ) from error
        raise


def _in_collection(entry: Entry, target: str) -> str:
    return f"{entry.collection}.{target}"
