"""`port check`: compares a PyTorch and a Flax module side by side: where and why they part."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from port.cli.guarding import guarded, said_beforehand
from port.cli.inputs import arrays_from_options, inputs_from_options
from port.cli.models import built_flax_model, built_torch_model, is_linen_model, names_flax_module, register_pairs
from port.cli.parsing import parsed
from port.cli.rules import fold_of, renames_from, rules_from
from port.errors import UsageError
from port.extras import require
from port.judging.limits import TIME_LIMIT
from port.named import arguments as keywords
from port.weights import load

if TYPE_CHECKING:
    from port.parity import CheckReport


@dataclass(frozen=True)
class Arguments:
    """Check whether a Flax module is the same model as a PyTorch one: outputs, gradients, buffers after some steps, in
    evaluation and in training, in float64. If they differ, it names the first layer that does, forward and backward,
    and what makes the two agree.

    Exits 0 if they agree, 1 if they differ, 2 on bad input, 4 if it cannot be judged.
    """

    torch: Annotated[Positional[str], arg(metavar="TORCH")]
    """MODULE:NAME of the PyTorch module: a class, a function that builds it, or a module; or of an nnx module or its
    class, which FLAX, another such, is then compared with, without PyTorch"""
    flax: Annotated[Positional[str], arg(metavar="FLAX")]
    """MODULE:NAME of the Flax module, nnx or Linen"""
    input: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SHAPE[:DTYPE]")] = ()
    """an input of PyTorch's, as in 1,3,224,224 or 1,16:int64; repeat per input. Integers are drawn from 0 and 1"""
    inputs: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """instead, a function that returns the inputs: a tensor, a tuple, or a dict of arguments by name"""
    flax_inputs: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """a function that returns the Flax module's inputs, if they are not PyTorch's in another layout"""
    kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of both, as in '{"width": 64}', or MODULE:NAME of a dict or a function that returns one"""
    torch_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of the PyTorch module only"""
    flax_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of the Flax module only"""
    torch_weights: Annotated[Path | None, arg(metavar="FILE")] = None
    """a checkpoint of the PyTorch module (never unpickled beyond tensors)"""
    flax_weights: Annotated[Path | None, arg(metavar="FILE")] = None
    """a checkpoint of the Flax module: first compared with PyTorch's. Without one, Flax gets PyTorch's weights"""
    mapping: Annotated[Path | None, arg(metavar="FILE")] = None
    """a mapping file (TOML) for models whose names differ"""
    rename: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="PATTERN=NAME")] = ()
    """rename torch's keys by a regular expression, as in 'blocks\\.(\\d+)=layers.\\1'"""
    fold: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="LAYER=C,H,W")] = ()
    """reorder the inputs of a linear layer after a flatten, as in classifier.0=512,7,7"""
    layout: Literal["as-it-is", "channels-last"] | None = None
    """the layout of Flax's inputs; by default channels last if the first spatial layer takes them so"""
    precision: Literal["float64", "float32"] = "float64"
    """float64 is the proof; in float32 faults below 1e-4 are not seen"""
    rtol: float | None = None
    """relative limit of outputs, ten times that for gradients; by default 1e-10 and 1e-9 (float32: 1e-4, 1e-3)"""
    atol: float = 0.0
    """absolute differences below it count as equal"""
    steps: int = 3
    """forward passes in training before running statistics are compared"""
    time_limit: Annotated[float, arg(metavar="SECONDS")] = TIME_LIMIT
    """time limit of the comparison, by its estimate; beyond it a smaller batch is compared, or a part, or nothing"""
    pairs: Annotated[Path | None, arg(metavar="FILE.py")] = None
    """your own pairs: of layers, losses, operators, optimizers, schedules"""
    json: bool = False
    """print the result as JSON, for programs"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    options = parsed(Arguments, "check", arguments)
    if bool(options.input) == (options.inputs is not None):
        raise UsageError("pass the models' inputs: --input 1,3,32,32 for each tensor, or --inputs module:function")
    is_flax = names_flax_module(options.torch, "TORCH") and names_flax_module(options.flax, "FLAX")
    if not is_flax:
        require("port check", torch=("torch", "psutil"))
    # Imported here, so that --help does not wait for JAX.
    from rich.console import Console

    from port.report.check_terminal import print_check
    from port.report.results import printed, result_of_check

    if options.pairs is not None:
        register_pairs(options.pairs)
    report = _of_two_flax_modules(options) if is_flax else _of_torch_and_flax(options)
    if options.json:
        print(printed(result_of_check(report)))
    else:
        print_check(report, Console() if sys.stdout.isatty() else Console(width=10_000))
    return report.status.exit_code


def _of_torch_and_flax(options: Arguments) -> CheckReport:
    from port.parity.checking import check

    theirs, ours, inputs, flax_inputs = _models(options)
    compare = partial(
        check,
        theirs,
        ours,
        inputs,
        channels_last=None if options.layout is None else options.layout == "channels-last",
        flax_inputs=flax_inputs,
        rename=rules_from(options.mapping, options.rename, options.fold),
        fold=dict(map(fold_of, options.fold)),
        weights="torch" if options.flax_weights is None else "own",
        precision=options.precision,
        rtol=options.rtol,
        atol=options.atol,
        steps=options.steps,
        time_limit=options.time_limit,
        tell=said_beforehand,
    )
    return guarded(compare, "the models could not be compared")


def _of_two_flax_modules(options: Arguments) -> CheckReport:
    """Both in one layout, their variables under one path or renamed."""
    from port.parity.flax_checking import check_flax

    for option, is_set in (
        ("--mapping", options.mapping is not None),
        ("--fold", bool(options.fold)),
        ("--layout", options.layout is not None),
    ):
        if is_set:
            raise UsageError(f"{option} is between torch and Flax: leave it away for two Flax modules")
    both = keywords(options.kwargs, "--kwargs")
    first = built_flax_model(options.torch, both | keywords(options.torch_kwargs, "--torch-kwargs"), "the first module")
    second = built_flax_model(options.flax, both | keywords(options.flax_kwargs, "--flax-kwargs"), "the second module")
    if is_linen_model(first) or is_linen_model(second):
        raise UsageError("port check takes two nnx modules; port.check_flax takes (Linen module, variables) too")
    for module, weights in ((first, options.torch_weights), (second, options.flax_weights)):
        if weights is not None:
            load(module, weights)
    compare = partial(
        check_flax,
        first,
        second,
        arrays_from_options(options.input, options.inputs),
        second_inputs=None if options.flax_inputs is None else arrays_from_options((), options.flax_inputs),
        rename=renames_from(options.rename),
        weights="first" if options.flax_weights is None else "own",
        precision=options.precision,
        rtol=options.rtol,
        atol=options.atol,
        steps=options.steps,
    )
    return guarded(compare, "the modules could not be compared")


def _models(options: Arguments) -> tuple[Any, Any, Any, Any]:
    """Load both modules with their weights, and the inputs of each; Flax's are None if they are PyTorch's.

    Raises:
        PortError: a module, its weights or its inputs are invalid.
    """
    both = keywords(options.kwargs, "--kwargs")
    theirs = built_torch_model(options.torch, both | keywords(options.torch_kwargs, "--torch-kwargs"), "TORCH")
    ours = built_flax_model(options.flax, both | keywords(options.flax_kwargs, "--flax-kwargs"), "FLAX")
    inputs = inputs_from_options(options.input, options.inputs)
    flax_inputs = None if options.flax_inputs is None else inputs_from_options((), options.flax_inputs)
    if options.torch_weights is not None:
        load(theirs, options.torch_weights)
    return theirs, _with_weights(ours, options, theirs, inputs), inputs, flax_inputs


def _with_weights(module: Any, options: Arguments, theirs: Any, inputs: Any) -> Any:
    """Fill an nnx module from its file; return a Linen module with its variables."""
    from flax import linen

    if not isinstance(module, linen.Module):
        if options.flax_weights is not None:
            load(module, options.flax_weights, rename=rules_from(options.mapping, options.rename, options.fold))
        return module
    from port.parity.sides.linen_variables import initial_variables, variables_of_file

    if options.flax_weights is not None:
        return module, variables_of_file(options.flax_weights)
    return module, initial_variables(module, theirs, inputs)
