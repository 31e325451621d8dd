"""`port match`: proposes and proves the mapping between a torch and a Flax model that were written separately."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from port.cli.empty import refuse_empty
from port.cli.guarding import guarded
from port.cli.inputs import inputs_from_options
from port.cli.models import built_flax_model, built_torch_model, register_pairs
from port.cli.parsing import parsed
from port.cli.rules import rules_from
from port.errors import UsageError
from port.extras import require
from port.named import arguments as keywords


@dataclass(frozen=True)
class Arguments:
    """Propose the mapping between a PyTorch and a Flax model that were written separately, and prove it.

    Layers are matched by your rules, kind and shape, names, and the order of their calls; if these do not decide, by
    what both models compute with the same random weights. Then both are compared, outputs and gradients, with torch's
    weights converted. Where two possibilities remain, both are listed, never guessed.
    Exits 0 if the mapping is proved and the models agree; 1 if the two models differ with it, be it only in training;
    4 if something stays open or cannot be judged; 2 for models or inputs that cannot be used.
    """

    torch: Annotated[Positional[str], arg(metavar="TORCH")]
    """the torch model, MODULE:NAME or FILE.py:NAME: a class, a function that returns a module, or a module"""
    flax: Annotated[Positional[str], arg(metavar="FLAX")]
    """the Flax model, nnx or Linen, in the same way"""
    kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of both, as in '{"width": 64}'; '{"config": {"@my_pkg.model:Config": {"n": 2}}}' calls
    the named class, and MODULE:NAME instead of JSON is a dict or a function that returns one"""
    torch_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of the torch model only"""
    flax_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """constructor arguments of the Flax model only"""
    input: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SHAPE[:DTYPE]")] = ()
    """an input of the torch model, as in 1,3,224,224 or 2,16:int64; repeat per input. Spatial ones are moved to
    channels last for Flax. Integers are drawn from 0 and 1"""
    inputs: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """instead, a function that returns the inputs: a tensor, a tuple, or a dict of arguments by name"""
    mapping: Annotated[Path | None, arg(metavar="FILE")] = None
    """a mapping file (TOML) with what you know: [[rename]], [fold], [[rule]], keep; it takes precedence"""
    rename: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="PATTERN=NAME")] = ()
    """rename torch's keys by a regular expression, as in 'blocks\\.(\\d+)=layers.\\1'"""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """write the mapping, which port convert --mapping and port.check(rename=…) read; what stays open is in it as
    comments"""
    pairs: Annotated[Path | None, arg(metavar="FILE.py")] = None
    """your own pairs: of layers, losses, operators, optimizers, schedules"""
    json: bool = False
    """print the result as JSON, for programs"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    refuse_empty("match", arguments)
    options = parsed(Arguments, "match", arguments)
    if bool(options.input) == (options.inputs is not None):
        raise UsageError("pass the torch model's inputs: --input 1,3,224,224 for each tensor, or --inputs MODULE:NAME")
    if options.out is not None and options.out.is_dir():
        raise UsageError(f"-o {options.out} is a folder: name a file, as in {options.out}/mapping.toml")
    require("port match", torch=("torch", "psutil"))
    # Imported here, so that --help does not wait for JAX.
    from rich.console import Console

    from port.matching.matching import match
    from port.report.matching_terminal import print_match
    from port.report.results import printed, result_of_match

    if options.pairs is not None:
        register_pairs(options.pairs)
    rules = rules_from(options.mapping, options.rename, ())
    both = keywords(options.kwargs, "--kwargs")
    module = built_torch_model(options.torch, both | keywords(options.torch_kwargs, "--torch-kwargs"), "TORCH")
    inputs = inputs_from_options(options.input, options.inputs)
    flax = _flax(options.flax, both | keywords(options.flax_kwargs, "--flax-kwargs"), module, inputs)
    found = guarded(lambda: match(module, flax, inputs, rename=rules), "the models could not be matched")
    if options.out is not None:
        found.save(options.out)
    if options.json:
        print(printed(result_of_match(found, options.out)))
    else:
        print_match(found, Console() if sys.stdout.isatty() else Console(width=10_000), file=options.out)
    return found.status.exit_code


def _flax(reference: str, options: dict[str, Any], module: Any, inputs: Any) -> Any:
    """Return an nnx module, or a Linen module with variables that are initialized for the inputs."""
    from flax import linen

    built = built_flax_model(reference, options, "FLAX")
    if not isinstance(built, linen.Module):
        return built
    from port.parity.sides.linen_variables import initial_variables

    return built, initial_variables(built, module, inputs)
