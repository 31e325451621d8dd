"""`port match`: the mapping between a torch and a Flax model that were written apart, proposed and proved."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional, UseAppendAction, arg

from port.cli.models import register_pairs
from port.errors import NoPair, PortError, UsageError, described
from port.named import advice, named
from port.named import arguments as keywords

PROVED, DIFFER, OPEN = 0, 1, 4


@dataclass(frozen=True)
class Arguments:
    """Propose the mapping between a PyTorch and a Flax model that were written apart, and prove it.

    Layers are matched by your rules, kind and shape, names, and the order of their calls; where these do not decide, by
    what both models compute with the same random weights. Then both are compared, outputs and gradients, with torch's
    weights moved over. What two possibilities agree with is listed, never guessed.
    Exits 0 if the mapping is proved; 1 if one is proposed and the two models differ with it; 4 if something stays open
    or cannot be judged; 2 for models or inputs that cannot be used.
    """

    torch: Annotated[Positional[str], arg(metavar="TORCH")]
    """torch's model, MODULE:NAME or FILE.py:NAME: a class, a function that gives a module, or a module"""
    flax: Annotated[Positional[str], arg(metavar="FLAX")]
    """Flax's, nnx or Linen, in the same way"""
    kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """arguments that both are built with, as in '{"width": 64}'; '{"config": {"@my_pkg.model:Config": {"n": 2}}}' calls
    what is named, and MODULE:NAME in place of the JSON is a dict or a function that gives one"""
    torch_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """the torch model's alone"""
    flax_kwargs: Annotated[str | None, arg(metavar="JSON")] = None
    """the Flax model's alone"""
    input: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SHAPE[:DTYPE]")] = ()
    """an input of torch's, as in 1,3,224,224 or 2,16:int64; once for each. Spatial ones are moved to channels last for
    Flax. Integers are drawn from 0 and 1"""
    inputs: Annotated[str | None, arg(metavar="MODULE:NAME")] = None
    """in its place, a function that gives them: a tensor, a tuple, or a dict of those by name"""
    mapping: Annotated[Path | None, arg(metavar="FILE")] = None
    """a mapping file (TOML) with what you know: [[rename]], [fold], [[rule]]; it comes first"""
    rename: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="PATTERN=NAME")] = ()
    """the same of torch's names, by a regular expression, as in 'blocks\\.(\\d+)=layers.\\1'"""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """write the mapping, which port convert --mapping and port.check(rename=…) read; what is open stands in it as
    comments"""
    pairs: Annotated[Path | None, arg(metavar="FILE.py")] = None
    """your own layers' pairs"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = tyro.cli(Arguments, prog="port match", args=arguments)
    if bool(given.input) == (given.inputs is not None):
        raise UsageError("say what torch's model takes: --input 1,3,224,224 for each tensor, or --inputs MODULE:NAME")
    if given.out is not None and given.out.is_dir():
        raise UsageError(f"-o {given.out} is a folder: name a file, as in {given.out}/mapping.toml")
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError("port match runs both models, and needs PyTorch, which is not installed here") from error
    # Here, not above: --help need not wait for JAX.
    from rich.console import Console

    from port.matching import match
    from port.report.matching_terminal import print_match

    if given.pairs is not None:
        register_pairs(given.pairs)
    rules = _rules(given)
    both = keywords(given.kwargs, "--kwargs")
    module = _torch(given.torch, both | keywords(given.torch_kwargs, "--torch-kwargs"))
    inputs = _inputs(given)
    flax = _flax(given.flax, both | keywords(given.flax_kwargs, "--flax-kwargs"), module, inputs)
    found = _guarded(lambda: match(module, flax, inputs, rename=rules))
    if given.out is not None:
        found.save(given.out)
    console = Console() if sys.stdout.isatty() else Console(width=10_000)
    print_match(found, console, file=given.out)
    if found.is_proved:
        return PROVED
    return OPEN if found.open or found.report is None else DIFFER


def _guarded(work: Callable[[], Any]) -> Any:
    """The work's result.

    Raises:
        PortError: what it was refused for, or that it failed: a fault of ours, said in one line.
    """
    try:
        return work()
    except PortError:
        raise
    except Exception as error:
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise NoPair(
            f"the models could not be matched, and that is a fault of port's: {type(error).__name__}: "
            f"{lines[0][:300] if lines else 'no message'} ({Path(last.filename).name}:{last.lineno}); please report it"
        ) from error


def _rules(given: Arguments) -> Any:
    from port.cli.convert import renaming

    return renaming(given.mapping, given.rename)


def _inputs(given: Arguments) -> Any:
    from port.translation.inputs import arguments, drawn

    if given.inputs is None:
        args, kwargs = drawn(*given.input)
    else:
        args, kwargs = arguments(_called(named(given.inputs, "--inputs"), {}, given.inputs, "--inputs"))
    if args and kwargs:
        raise UsageError("--inputs gives both positional arguments and some by name; give all of them by name")
    return kwargs or tuple(args)


# %% The models, with values


def _torch(reference: str, options: dict[str, Any]) -> Any:
    import torch

    made = named(reference, "TORCH")
    module = made if isinstance(made, torch.nn.Module) else _called(made, options, reference, "TORCH")
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"TORCH: {reference} gives {described(module)}, and no torch.nn.Module")
    return module


def _flax(reference: str, options: dict[str, Any], module: Any, inputs: Any) -> Any:
    """An nnx module; or a Linen module with variables, drawn for the inputs."""
    from flax import linen, nnx

    made = named(reference, "FLAX")
    built = made
    if not isinstance(made, nnx.Module | linen.Module):
        from port.cli.models import wants_rngs

        more = {"rngs": nnx.Rngs(0)} if wants_rngs(made) and "rngs" not in options else {}
        built = _called(made, {**options, **more}, reference, "FLAX")
    if isinstance(built, linen.Module):
        from port.matching import initialised

        return built, initialised(built, module, inputs)
    is_pair = isinstance(built, tuple) and len(built) == 2 and isinstance(built[0], linen.Module)
    if not isinstance(built, nnx.Module) and not is_pair:
        raise UsageError(f"FLAX: {reference} gives {described(built)}, and no nnx or Linen module")
    return built


def _called(made: Callable[..., Any], options: dict[str, Any], reference: str, option: str) -> Any:
    """Call what is the user's own, with torch's generator at seed 0.

    Raises:
        UsageError: it fails.
    """
    import torch

    if not callable(made):
        raise UsageError(f"{option}: {reference} is {described(made)}, and cannot be called")
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return made(**options)
    except PortError:
        raise
    except Exception as error:
        more = f"\n{advice(made, '--kwargs')}" if isinstance(error, TypeError | AttributeError) else ""
        raise UsageError(f"{option}: {reference} fails: {type(error).__name__}: {error}{more}") from error
