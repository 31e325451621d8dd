"""`port convert`: converts weights from a torch checkpoint to Flax, or back."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from port.cli.empty import refuse_empty
from port.cli.models import example_inputs, flax_arguments, flax_model, register_pairs, torch_model
from port.cli.parsing import parsed
from port.cli.rules import fold_of, rules_from
from port.errors import UsageError
from port.named import arguments as keywords
from port.named import named
from port.weights.checkpoint import open_checkpoint
from port.weights.constructor_arguments import SaidArguments
from port.weights.conversion import convert
from port.weights.options import Options

if TYPE_CHECKING:
    from port.optim.moving import MovedOptimizer
    from port.weights.checkpoint import Checkpoint

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Arguments:
    """Convert a torch checkpoint to Flax variables, or back with --reverse. Nothing is written unless everything
    fits.

    Reads .pt, .pth, .bin, .ckpt and TorchScript (never unpickled beyond tensors), .safetensors, sharded index files,
    .msgpack, .npz, Orbax, torch.distributed.checkpoint. The output's suffix sets its format. A converted file stores
    how it was made: the way back needs neither model nor mapping, and restores every tensor bit for bit, under the
    model's own names (without module. or _orig_mod.). Exits 0 if it succeeds, 2 if something does not fit.
    """

    source: Positional[Path]
    """the checkpoint: a file, an index file, or a folder (of the hub, Orbax, torch.distributed.checkpoint, PEFT)"""
    out: Annotated[str | None, arg(aliases=["-o"], metavar="PATH")] = None
    """the output; its suffix sets the format: .safetensors (also without one), .npz, for Flax .msgpack, .orbax or a
    name that ends in / (Orbax), for torch .pt, .pth, .bin"""
    torch: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """the torch model, a class or a function that builds it, as in torchvision.models:resnet50"""
    flax: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """the Flax model, nnx or Linen; one of the two models is enough"""
    kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of the models, as in '{"width": 64}'; '{"config": {"@my_pkg.model:Config": {"n": 2}}}'
    calls the named class, and MODULE:NAME instead of JSON is a dict or a function that returns one"""
    torch_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of the torch model only"""
    flax_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of the Flax model only"""
    input: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SHAPE[:DTYPE]")] = ()
    """a Linen model's example input, as in 1,32,32,3 or 1,16:int32; repeat per input"""
    reverse: bool = False
    """from Flax to torch; needs no model for a file that this command or port translate wrote"""
    partial: bool = False
    """accept a file with a part of the model, as adapters or a backbone, and list what it lacks"""
    adapter: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """a LoRA adapter in PEFT's format (adapter_config.json, adapter_model.safetensors), to merge into the weights"""
    widen: Annotated[str | None, arg(metavar="DTYPE")] = None
    """widen eight-bit weights by the scales beside them, as to bfloat16; --reverse restores them from float32, and
    with --widen too keeps them wide"""
    format: Literal["safetensors", "msgpack", "orbax", "torch", "npz", "hf", "peft"] | None = None
    """the output's format, if the name in --out has no suffix to set it; with --reverse hf: a folder that
    transformers loads, peft: an adapter's folder that PEFT loads"""
    like: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """with --format hf, the model's folder to copy config.json and tokenizer files from; with peft, the adapter's, to
    copy adapter_config.json from"""
    mesh: Annotated[str | None, arg(metavar="AXIS=DEVICES")] = None
    """write Orbax for a mesh, as in fsdp=8 or data=2,fsdp=4: each device can read its part of a tensor alone. A single
    axis shards a tensor along its longest axis that the devices divide"""
    sharding: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="PATTERN=AXES")] = ()
    """sharding of the tensors whose path matches a regular expression, first match wins: the mesh axis for each of
    their axes, as in '.*kernel=fsdp,-' or 'embed.*=data+fsdp,tensor'; '.*=longest:fsdp' shards the longest, '.*=-'
    none"""
    dtype: Annotated[str | None, arg(metavar="DTYPE")] = None
    """cast floating tensors, as to bfloat16; by default every bit is kept"""
    mapping: Annotated[Path | None, arg(metavar="FILE")] = None
    """a mapping file (TOML) for models whose names differ"""
    rename: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="PATTERN=NAME")] = ()
    """rename torch's keys by a regular expression, as in 'blocks\\.(\\d+)=layers.\\1'"""
    fold: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="LAYER=C,H,W")] = ()
    """reorder the inputs of a linear layer after a flatten, as in classifier.0=512,7,7"""
    save_mapping: Annotated[Path | None, arg(metavar="FILE")] = None
    """also write the whole mapping, to repeat or reverse the conversion"""
    key: Annotated[str | None, arg(metavar="NAME")] = None
    """the key of the state dict in a training checkpoint, if it has several"""
    optimizer: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """also convert the optimizer in a training checkpoint: its class, as in torch.optim:AdamW; needs --torch"""
    optimizer_key: Annotated[str | None, arg(metavar="NAME")] = None
    """the key of the optimizer's state dict in the checkpoint, if it has several"""
    scheduler: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """also convert the optimizer's scheduler: its class, as in torch.optim.lr_scheduler:CosineAnnealingLR"""
    scheduler_key: Annotated[str | None, arg(metavar="NAME")] = None
    """the key of the scheduler's state dict in the checkpoint, if it has several"""
    steps_per_epoch: Annotated[int | None, arg(metavar="N")] = None
    """updates per step of the scheduler; by default it is stepped with every update"""
    step: Annotated[int | None, arg(metavar="N")] = None
    """updates since the scheduler was made, if the checkpoint and its optimizer do not count them"""
    schedule: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """instead of a scheduler, the function from update to learning rate by which the training loop sets it"""
    steps: Annotated[int | None, arg(metavar="N")] = None
    """how many updates to evaluate the schedule's function for beforehand, if JAX cannot trace it"""
    pairs: Annotated[Path | None, arg(metavar="FILE.py")] = None
    """your own pairs: of layers, losses, operators, optimizers, schedules"""
    max_shard_size: Annotated[str | None, arg(metavar="SIZE")] = None
    """write several safetensors files of at most this size and an index, as in 5GB; --format hf defaults to 5GB"""
    overwrite: bool = False
    """replace existing files"""
    dry_run: bool = False
    """print the mapping as a table; write nothing"""
    json: bool = False
    """print the result as JSON, for programs"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    refuse_empty("convert", arguments)
    options = parsed(Arguments, "convert", arguments)
    if (options.out is None) != options.dry_run:
        raise UsageError("pass -o PATH to write the result, or --dry-run to write nothing; one of them")
    if options.dry_run and options.save_mapping is not None:
        raise UsageError("--dry-run writes nothing, so it excludes --save-mapping: leave one of them out")
    # Imported here, so that --help does not wait for JAX.
    from rich.console import Console

    from port.report import print_conversion

    if options.pairs is not None:
        register_pairs(options.pairs)
    both = keywords(options.kwargs, "--kwargs")
    torch, flax, said = None, None, SaidArguments()
    if options.torch is not None:
        torch = torch_model(options.torch, both | keywords(options.torch_kwargs, "--torch-kwargs"))
    if options.flax is not None:
        of_flax = both | keywords(options.flax_kwargs, "--flax-kwargs")
        flax = flax_model(options.flax, of_flax)
        said = flax_arguments(options.flax, of_flax)
    _check_optimizer(options, torch)
    conversion_options = Options(
        torch=torch,
        flax=flax,
        inputs=example_inputs(options.input),
        rename=rules_from(options.mapping, options.rename, options.fold),
        fold=dict(map(fold_of, options.fold)),
        reverse=options.reverse,
        partial=options.partial,
        key=options.key,
        adapter=options.adapter,
        widen=options.widen,
        dtype=options.dtype,
        format=options.format,
        mesh=options.mesh,
        sharding=options.sharding or None,
        like=options.like,
        max_shard_size=None if options.max_shard_size is None else _bytes(options.max_shard_size),
        overwrite=options.overwrite,
        save_mapping=options.save_mapping,
        arguments=said,
    )
    with open_checkpoint(options.source, key=options.key) as checkpoint:
        moving = _optimizer(options, torch, checkpoint)
        done = convert(checkpoint, options.out, conversion_options, beside=moving)
    if moving is not None:
        done.left_out = {_without(names, moving.places): why for names, why in done.left_out.items()}
        done.left_out.pop("", None)
        done.remarks += moving.remarks
    if options.json:
        from port.report.results import printed, result_of_conversion

        print(printed(result_of_conversion(done)))
        return 0
    # In a file or a pipe, lines are not wrapped: no name is broken.
    console = Console() if sys.stdout.isatty() else Console(width=10_000)
    print_conversion(done, options.source, console, table=options.dry_run)
    if moving is not None and moving.source:
        console.print(f"\nThe optimizer after {moving.step} steps; port.optim.load_opt_state fills its state:\n")
        console.print(moving.source, highlight=False, markup=False)
    return 0


def _without(names: str, taken: Sequence[str]) -> str:
    return ", ".join(name for name in names.split(", ") if name not in taken)


def _check_optimizer(options: Arguments, torch: Any) -> None:
    """Raise UsageError for inconsistent options of an optimizer."""
    own = (options.scheduler_key, options.steps_per_epoch, options.step if options.schedule is None else None)
    if options.scheduler is None and own != (None, None, None):
        raise UsageError(
            "--scheduler-key, --steps-per-epoch and --step belong to the scheduler: pass its class, with --scheduler"
        )
    if options.steps is not None and (options.steps < 1 or options.schedule is None):
        raise UsageError("--steps is how many updates to evaluate the function of --schedule for: 1 or more, with it")
    if options.schedule is not None and (options.scheduler is not None or options.optimizer is None):
        raise UsageError("--schedule replaces --scheduler, and needs --optimizer: pass it so")
    if options.steps_per_epoch is not None and options.steps_per_epoch < 1:
        raise UsageError(f"--steps-per-epoch must be at least 1, got {options.steps_per_epoch}")
    if options.step is not None and options.step < 0:
        raise UsageError(f"--step must be at least 0, got {options.step}")
    if options.optimizer is None:
        if options.optimizer_key is not None:
            raise UsageError("--optimizer-key says where the optimizer is; pass its class too, with --optimizer")
        if options.scheduler is not None:
            raise UsageError("--scheduler belongs to the optimizer: pass the optimizer's class too, with --optimizer")
    elif torch is None or options.reverse:
        raise UsageError("--optimizer needs --torch, whose parameters it trains, and converts only from torch to Flax")


def _optimizer(options: Arguments, torch: Any, checkpoint: Checkpoint) -> MovedOptimizer | None:
    """Convert the checkpoint's optimizer beside its weights; None if that is not requested."""
    if options.optimizer is None:
        return None
    from port.optim.moving import MovedOptimizer

    return MovedOptimizer(
        checkpoint,
        named(options.optimizer, "--optimizer"),
        torch,
        key=options.optimizer_key,
        scheduler=None if options.scheduler is None else named(options.scheduler, "--scheduler"),
        scheduler_key=options.scheduler_key,
        steps_per_epoch=options.steps_per_epoch,
        step=options.step,
        schedule=None if options.schedule is None else named(options.schedule, "--schedule"),
        steps=options.steps,
    )


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in UNITS:
        raise UsageError(f"--max-shard-size takes a size, as in 500MB or 5GB; got {text!r}")
    return int(float(match[1]) * UNITS[match[2].upper()])
