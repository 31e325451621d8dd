"""Finds and builds a model named on the command line, ``package.module:name``, without memory for its weights."""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from port.errors import UsageError, described
from port.extras import is_installed, require
from port.named import advice, named, named_shape
from port.pairs import register
from port.weights.constructor_arguments import SaidArguments, said_arguments
from port.weights.sources import is_torch


def torch_model(reference: str, arguments: dict[str, Any]) -> Any:
    """Build a torch module on the meta device: structure without memory.

    Raises:
        UsageError: it cannot be found or built.
    """
    require("--torch (--flax does without)", torch=("torch",))
    import torch

    made = named(reference, "--torch")
    if isinstance(made, torch.nn.Module):
        return made
    if _is_flaxs(made if isinstance(made, type) else type(made)):
        raise UsageError(f"--torch: {reference} is a Flax module: use --flax")
    try:
        # On the meta device torch warns of every value that a constructor sets or loads, which does not matter here.
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = made(**arguments)
    except Exception:
        # A constructor that reads values (`.item()`) needs real ones.
        module = _built(made, arguments, reference, "--torch")
    if _is_flaxs(type(module)):
        raise UsageError(f"--torch: {reference} returns a Flax module: use --flax")
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"--torch: {reference} returns a {type(module).__qualname__}, not a torch.nn.Module")
    return module


def flax_model(reference: str, arguments: dict[str, Any]) -> Any:
    """Build an nnx module without memory, or a Linen module.

    Raises:
        UsageError: it cannot be found or built.
    """
    from flax import linen, nnx

    made = named(reference, "--flax")
    if isinstance(made, nnx.Module | linen.Module):
        return made
    if isinstance(made, type) and issubclass(made, linen.Module):
        return _built(made, arguments, reference, "--flax")

    def build(**keywords: Any) -> Any:
        # The streams are made inside the trace: nnx does not draw from those of another trace.
        return made(**keywords, rngs=nnx.Rngs(0)) if _wants_rngs(made) else made(**keywords)

    try:
        module = nnx.eval_shape(lambda: build(**arguments))
    except Exception:
        module = _built(build, arguments, reference, "--flax")
    if not isinstance(module, nnx.Module | linen.Module):
        raise UsageError(f"--flax: {reference} returns a {type(module).__qualname__}, not an nnx or Linen module")
    return module


def flax_arguments(reference: str, arguments: dict[str, Any]) -> SaidArguments:
    """The constructor arguments of an nnx module, for its weights file; empty if something else makes it."""
    from flax import nnx

    made = named(reference, "--flax")
    return (
        said_arguments(made, arguments) if isinstance(made, type) and issubclass(made, nnx.Module) else SaidArguments()
    )


def built_torch_model(reference: str, arguments: dict[str, Any], option: str, *, files: bool = True) -> Any:
    """Build a torch module with the weights that its constructor draws at seed 0.

    Args:
        reference: ``module:name``, or ``file.py:name``.
        arguments: its constructor's arguments.
        option: the option it was passed to, for error messages.
        files: whether a file is allowed.

    Raises:
        UsageError: it cannot be found or built.
    """
    import torch

    made = named(reference, option, files=files)
    if _is_flaxs(made if isinstance(made, type) else type(made)):
        raise UsageError(f"{option}: {reference} is a Flax module, but must be a PyTorch module")
    if isinstance(made, torch.nn.Module):
        if arguments:
            raise UsageError(f"{reference} is a module already, and takes no --kwargs")
        return made
    if not callable(made):
        raise UsageError(
            f"{option}: {reference} is {described(made)}: a class or a function that returns a module is needed"
        )
    module = called(made, arguments, reference, option)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"{option}: {reference} returns {described(module)}, not a torch.nn.Module")
    return module


def built_flax_model(reference: str, arguments: dict[str, Any], option: str) -> Any:
    """Build an nnx module with weights drawn at seed 0, if it takes ``rngs``.

    Or a Linen module, which has no weights, or (Linen module, variables).

    Raises:
        UsageError: it cannot be found or built.
    """
    from flax import linen, nnx

    made = named(reference, option)
    if isinstance(made, nnx.Module | linen.Module):
        return made
    if is_torch(made) or (isinstance(made, type) and "torch.nn.modules.module" in {b.__module__ for b in made.__mro__}):
        raise UsageError(f"{option}: {reference} is a PyTorch module, but must be a Flax module")
    if not callable(made):
        raise UsageError(
            f"{option}: {reference} is {described(made)}: a class or a function that returns a module is needed"
        )
    wants = _wants_rngs(made) and not _is_linen(made) and "rngs" not in arguments
    module = called(made, arguments, reference, option, **({"rngs": nnx.Rngs(0)} if wants else {}))
    is_pair = isinstance(module, tuple) and len(module) == 2 and isinstance(module[0], linen.Module)
    if not is_pair and not isinstance(module, nnx.Module | linen.Module):
        raise UsageError(f"{option}: {reference} returns {described(module)}, not an nnx or Linen module")
    return module


def called(function: Callable[..., Any], options: dict[str, Any], reference: str, option: str, **more: Any) -> Any:
    """Call a user's function, with torch's generator at seed 0.

    Args:
        function: the user's function.
        options: its keyword arguments from the user.
        reference: its name, for error messages.
        option: the option it was passed to, for error messages.
        more: arguments that the user did not pass.

    Raises:
        UsageError: the call fails.
    """
    if not callable(function):
        raise UsageError(f"{option}: {reference} is {described(function)}, which cannot be called")
    try:
        with _torch_at_seed_zero():
            return function(**options, **more)
    except Exception as error:
        with_options = f" with {json.dumps(options, default=repr)}" if options else ""
        hint = (
            f"\n{advice(function, '--kwargs')}"
            if option != "--inputs" and isinstance(error, TypeError | AttributeError)
            else ""
        )
        raise UsageError(f"{option}: {reference} fails{with_options}: {type(error).__name__}: {error}{hint}") from error


@contextmanager
def _torch_at_seed_zero() -> Iterator[None]:
    """Within it torch draws from seed 0, where torch is installed; afterwards as before."""
    if not is_installed("torch"):
        yield
        return
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def example_inputs(shapes: tuple[str, ...]) -> Any:
    """Make abstract inputs: ``1,32,32,3`` is a float32 array of that shape, ``1,16:int32`` one of integers.

    Raises:
        UsageError: an invalid shape or dtype.
    """
    import jax
    import jax.numpy as jnp

    inputs = []
    for text in shapes:
        sizes, name = named_shape(text)
        try:
            inputs.append(jax.ShapeDtypeStruct(sizes, jnp.dtype(name)))
        except TypeError as error:
            raise UsageError(
                f"an input is a shape, optionally with a numpy dtype, as in 1,16:int32; got {text!r}"
            ) from error
    return tuple(inputs) or None


def register_pairs(path: Path) -> None:
    """Run a user's file of pairs: it calls `port.register` itself, or lists them in ``PAIRS``.

    Raises:
        UsageError: the file does not exist, or fails; a pair that is rejected.
    """
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"--pairs: there is no Python file {path}")
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"--pairs: {path} fails: {_reason(error)}") from error
    for pair in getattr(module, "PAIRS", ()):
        try:
            register(pair)
        except UsageError as error:
            raise UsageError(f"--pairs: {path}: {error}") from error


def _built(made: Callable[..., Any], arguments: dict[str, Any], reference: str, option: str) -> Any:
    try:
        return made(**arguments)
    except Exception as error:
        shown = json.dumps(arguments, default=repr)
        more = f"\n{advice(made, '--kwargs')}" if isinstance(error, TypeError | AttributeError) else ""
        raise UsageError(f"{option}: {reference} cannot be built with {shown}: {_reason(error)}{more}") from error


def names_flax_module(reference: str, option: str) -> bool:
    """Whether ``module:name`` is an nnx or Linen module, or a class of those; False of what cannot be found."""
    try:
        made = named(reference, option)
    except UsageError:
        return False
    return _is_flaxs(made if isinstance(made, type) else type(made))


def is_linen_model(made: Any) -> bool:
    """Whether a model is a Linen module, or one with its variables."""
    from flax import linen

    return isinstance(made[0] if isinstance(made, tuple) else made, linen.Module)


def _is_flaxs(cls: type) -> bool:
    """Whether a class is a Flax module's; does not import Flax."""
    families = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
    return bool(families & {"flax.nnx.module.Module", "flax.linen.module.Module"})


def _is_linen(made: Any) -> bool:
    from flax import linen

    return isinstance(made, type) and issubclass(made, linen.Module)


def _wants_rngs(made: Any) -> bool:
    try:
        # The metaclass of nnx accepts any arguments: the signature of __init__ counts.
        return "rngs" in inspect.signature(made.__init__ if isinstance(made, type) else made).parameters  # type: ignore[misc]
    except (TypeError, ValueError):
        return False


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
