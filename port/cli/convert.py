"""`port convert`: weights from a torch checkpoint to Flax, or back."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional, UseAppendAction, arg

from port.cli.models import example_inputs, flax_arguments, flax_model, register_pairs, torch_model
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
    """Convert a torch checkpoint to Flax variables, or back with --reverse. Nothing is written unless all of it is
    right.

    Reads .pt, .pth, .bin, .ckpt and TorchScript (never unpickled beyond tensors), .safetensors, sharded index files,
    .msgpack, .npz, Orbax, torch.distributed.checkpoint. The result's suffix says its format. A converted file says
    itself how it was made: the way back needs neither model nor mapping, and gives every tensor bit for bit, under the
    model's own names (without module. or _orig_mod.). Exits 0 if it is done, 2 if something does not fit.
    """

    source: Positional[Path]
    """the checkpoint: a file, an index file, or a folder (of the hub, Orbax, torch.distributed.checkpoint, PEFT)"""
    out: Annotated[str | None, arg(aliases=["-o"], metavar="PATH")] = None
    """what to write; its suffix says the format: .safetensors (also without one), .npz, for Flax .msgpack, .orbax or a
    name that ends in / (Orbax), for torch .pt, .pth, .bin"""
    torch: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """the torch model, a class or a function that builds it, as in torchvision.models:resnet50"""
    flax: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """the Flax model, nnx or Linen; one of the two models is enough"""
    kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """arguments that the models are built with, as in '{"width": 64}'; '{"config": {"@my_pkg.model:Config": {"n": 2}}}'
    calls what is named, and MODULE:NAME in place of the JSON is a dict or a function that gives one"""
    torch_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """the torch model's alone"""
    flax_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """the Flax model's alone"""
    input: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SHAPE[:DTYPE]")] = ()
    """a Linen model's example input, as in 1,32,32,3 or 1,16:int32; once for each"""
    reverse: bool = False
    """from Flax to torch; a file that this command or port translate wrote needs no model for it"""
    partial: bool = False
    """take a file with a part of the model, as adapters or a backbone, and list what it lacks"""
    adapter: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """a LoRA adapter in PEFT's format (adapter_config.json, adapter_model.safetensors), to merge into the weights"""
    widen: Annotated[str | None, arg(metavar="DTYPE")] = None
    """widen weights of eight bits by the scales beside them, as to bfloat16; from float32 --reverse gives them back,
    and with --widen too leaves them wide"""
    format: Literal["safetensors", "msgpack", "orbax", "torch", "npz", "hf", "peft"] | None = None
    """of what is written, where the name of --out has no suffix to say it; with --reverse hf: a folder that
    transformers loads, peft: one of an adapter, that PEFT loads"""
    like: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """with --format hf, the model's folder whose config.json and tokenizer files are taken along; with peft, the
    adapter's, whose adapter_config.json is"""
    mesh: Annotated[str | None, arg(metavar="AXIS=DEVICES")] = None
    """write Orbax for a mesh, as in fsdp=8 or data=2,fsdp=4: each device's part of a tensor can be read alone. One axis
    cuts a tensor along the longest of its axes that the devices divide"""
    sharding: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="PATTERN=AXES")] = ()
    """of the tensors whose path fits a regular expression, the first that does: by which axis of the mesh each of
    theirs is cut, as in '.*kernel=fsdp,-' or 'embed.*=data+fsdp,tensor'; '.*=longest:fsdp' cuts the longest, '.*=-'
    none"""
    dtype: Annotated[str | None, arg(metavar="DTYPE")] = None
    """cast floating tensors, as in bfloat16; otherwise every bit stays"""
    mapping: Annotated[Path | None, arg(metavar="FILE")] = None
    """a mapping file (TOML) for models whose names differ"""
    rename: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="PATTERN=NAME")] = ()
    """rename torch's keys by a regular expression, as in 'blocks\\.(\\d+)=layers.\\1'"""
    fold: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="LAYER=C,H,W")] = ()
    """reorder a linear layer's inputs that are flattened features, as in classifier.0=512,7,7"""
    save_mapping: Annotated[Path | None, arg(metavar="FILE")] = None
    """also write the whole mapping, to go the same way again or back"""
    key: Annotated[str | None, arg(metavar="NAME")] = None
    """where in a training checkpoint the state dict is, if it holds several"""
    optimizer: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """also the optimizer in a training checkpoint: its class, as in torch.optim:AdamW; needs --torch"""
    optimizer_key: Annotated[str | None, arg(metavar="NAME")] = None
    """where in the checkpoint the optimizer's state dict is, if it holds several"""
    scheduler: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """also the optimizer's scheduler: its class, as in torch.optim.lr_scheduler:CosineAnnealingLR"""
    scheduler_key: Annotated[str | None, arg(metavar="NAME")] = None
    """where in the checkpoint the scheduler's state dict is, if it holds several"""
    steps_per_epoch: Annotated[int | None, arg(metavar="N")] = None
    """updates to a step of the scheduler; otherwise it is stepped with every update"""
    step: Annotated[int | None, arg(metavar="N")] = None
    """updates since the scheduler was made, where the checkpoint and its optimizer do not count them"""
    schedule: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """in a scheduler's place, the function from the update to the learning rate by which the training loop sets it"""
    steps: Annotated[int | None, arg(metavar="N")] = None
    """for how many updates the schedule's function is called beforehand, where JAX cannot trace it"""
    pairs: Annotated[Path | None, arg(metavar="FILE.py")] = None
    """your own pairs: of layers, losses, operators, optimizers, schedules"""
    max_shard_size: Annotated[str | None, arg(metavar="SIZE")] = None
    """write several safetensors files of at most this size and an index, as in 5GB; of --format hf it is 5GB"""
    overwrite: bool = False
    """replace what is there"""
    dry_run: bool = False
    """print the mapping as a table; write nothing"""
    json: bool = False
    """print the result as JSON, for programs"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = tyro.cli(Arguments, prog="port convert", args=arguments)
    if (given.out is None) != given.dry_run:
        raise UsageError("say where to write with -o PATH, or --dry-run to write nothing; one of them")
    if given.dry_run and given.save_mapping is not None:
        raise UsageError("--dry-run writes nothing, and so no --save-mapping either: leave one of them out")
    # Here, not above: --help need not wait for JAX.
    from rich.console import Console

    from port.report import print_conversion

    if given.pairs is not None:
        register_pairs(given.pairs)
    both = keywords(given.kwargs, "--kwargs")
    torch, flax, said = None, None, SaidArguments()
    if given.torch is not None:
        torch = torch_model(given.torch, both | keywords(given.torch_kwargs, "--torch-kwargs"))
    if given.flax is not None:
        of_flax = both | keywords(given.flax_kwargs, "--flax-kwargs")
        flax = flax_model(given.flax, of_flax)
        said = flax_arguments(given.flax, of_flax)
    _check_optimizer(given, torch)
    options = Options(
        torch=torch,
        flax=flax,
        inputs=example_inputs(given.input),
        rename=rules_from(given.mapping, given.rename, given.fold),
        fold=dict(map(fold_of, given.fold)),
        reverse=given.reverse,
        partial=given.partial,
        key=given.key,
        adapter=given.adapter,
        widen=given.widen,
        dtype=given.dtype,
        format=given.format,
        mesh=given.mesh,
        sharding=given.sharding or None,
        like=given.like,
        max_shard_size=None if given.max_shard_size is None else _bytes(given.max_shard_size),
        overwrite=given.overwrite,
        save_mapping=given.save_mapping,
        arguments=said,
    )
    with open_checkpoint(given.source, key=given.key) as checkpoint:
        moving = _optimizer(given, torch, checkpoint)
        done = convert(checkpoint, given.out, options, beside=moving)
    if moving is not None:
        done.left_out = {_without(names, moving.places): why for names, why in done.left_out.items()}
        done.left_out.pop("", None)
        done.remarks += moving.remarks
    if given.json:
        from port.report.results import printed, result_of_conversion

        print(printed(result_of_conversion(done)))
        return 0
    # In a file or a pipe a line is as long as it is: no name is broken.
    console = Console() if sys.stdout.isatty() else Console(width=10_000)
    print_conversion(done, given.source, console, table=given.dry_run)
    if moving is not None and moving.source:
        console.print(f"\nThe optimizer after {moving.step} steps; port.optim.load_opt_state fills its state:\n")
        console.print(moving.source, highlight=False, markup=False)
    return 0


def _without(names: str, taken: Sequence[str]) -> str:
    return ", ".join(name for name in names.split(", ") if name not in taken)


def _check_optimizer(given: Arguments, torch: Any) -> None:
    """Raise UsageError for options of an optimizer that cannot be."""
    own = (given.scheduler_key, given.steps_per_epoch, given.step if given.schedule is None else None)
    if given.scheduler is None and own != (None, None, None):
        raise UsageError(
            "--scheduler-key, --steps-per-epoch and --step are the scheduler's: say its class, with --scheduler"
        )
    if given.steps is not None and (given.steps < 1 or given.schedule is None):
        raise UsageError("--steps is how many updates the function of --schedule is called for: 1 or more, with it")
    if given.schedule is not None and (given.scheduler is not None or given.optimizer is None):
        raise UsageError("--schedule stands in a --scheduler's place, beside --optimizer: give it so")
    if given.steps_per_epoch is not None and given.steps_per_epoch < 1:
        raise UsageError(f"--steps-per-epoch must be at least 1, got {given.steps_per_epoch}")
    if given.step is not None and given.step < 0:
        raise UsageError(f"--step must be at least 0, got {given.step}")
    if given.optimizer is None:
        if given.optimizer_key is not None:
            raise UsageError("--optimizer-key says where the optimizer is; say its class too, with --optimizer")
        if given.scheduler is not None:
            raise UsageError("--scheduler is the optimizer's: say the optimizer's class too, with --optimizer")
    elif torch is None or given.reverse:
        raise UsageError("--optimizer needs --torch, whose parameters it trains, and goes from torch to Flax alone")


def _optimizer(given: Arguments, torch: Any, checkpoint: Checkpoint) -> MovedOptimizer | None:
    """What moves the checkpoint's optimizer beside its weights; None if that is not asked for."""
    if given.optimizer is None:
        return None
    from port.optim.moving import MovedOptimizer

    return MovedOptimizer(
        checkpoint,
        named(given.optimizer, "--optimizer"),
        torch,
        key=given.optimizer_key,
        scheduler=None if given.scheduler is None else named(given.scheduler, "--scheduler"),
        scheduler_key=given.scheduler_key,
        steps_per_epoch=given.steps_per_epoch,
        step=given.step,
        schedule=None if given.schedule is None else named(given.schedule, "--schedule"),
        steps=given.steps,
    )


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in UNITS:
        raise UsageError(f"--max-shard-size takes a size, as in 500MB or 5GB; got {text!r}")
    return int(float(match[1]) * UNITS[match[2].upper()])
