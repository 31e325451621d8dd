"""A model named on the command line, ``package.module:name``: found and built, without its weights' memory."""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.named import advice, named


def torch_model(reference: str, arguments: dict[str, Any]) -> Any:
    """A torch module, built on the meta device: structure without memory.

    Raises:
        UsageError: it cannot be found or built.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise UsageError("--torch needs PyTorch, which is not installed here; --flax does without") from error

    made = named(reference, "--torch")
    if isinstance(made, torch.nn.Module):
        return made
    if _is_flaxs(made if isinstance(made, type) else type(made)):
        raise UsageError(f"--torch: {reference} is a Flax module: use --flax")
    try:
        # Without memory torch warns of every value that a constructor sets or loads, though none matters here.
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = made(**arguments)
    except Exception:
        # A constructor that looks at values (`.item()`) needs real ones.
        module = _built(made, arguments, reference, "--torch")
    if _is_flaxs(type(module)):
        raise UsageError(f"--torch: {reference} gives a Flax module: use --flax")
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"--torch: {reference} gives a {type(module).__qualname__}, no torch.nn.Module")
    return module


def flax_model(reference: str, arguments: dict[str, Any]) -> Any:
    """An nnx module without memory, or a Linen module.

    Raises:
        UsageError: it cannot be found or built.
    """
    from flax import linen, nnx

    made = named(reference, "--flax")
    if isinstance(made, nnx.Module | linen.Module):
        return made
    if isinstance(made, type) and issubclass(made, linen.Module):
        return _built(made, arguments, reference, "--flax")

    def build(**given: Any) -> Any:
        # The streams are made here, inside the trace: nnx refuses to draw from those of another.
        return made(**given, rngs=nnx.Rngs(0)) if wants_rngs(made) else made(**given)

    try:
        module = nnx.eval_shape(lambda: build(**arguments))
    except Exception:
        module = _built(build, arguments, reference, "--flax")
    if not isinstance(module, nnx.Module | linen.Module):
        raise UsageError(f"--flax: {reference} gives a {type(module).__qualname__}, no nnx or Linen module")
    return module


def example_inputs(shapes: tuple[str, ...]) -> Any:
    """Abstract inputs: ``1,32,32,3`` is a float32 array of that shape, ``int32:1,16`` one of whole numbers.

    Raises:
        UsageError: no shape.
    """
    import jax
    import numpy as np

    inputs = []
    for text in shapes:
        dtype, colon, shape = text.rpartition(":")
        try:
            sizes = tuple(int(size) for size in shape.split(","))
            inputs.append(jax.ShapeDtypeStruct(sizes, np.dtype(dtype if colon else "float32")))
        except (ValueError, TypeError) as error:
            raise UsageError(f"--input takes a shape, as in 1,32,32,3 or int32:1,16; got {text!r}") from error
    return tuple(inputs) or None


def register_pairs(path: Path) -> None:
    """Run a user's file of pairs: it calls `port.register` itself, or names them in ``PAIRS``.

    Raises:
        UsageError: the file is not there, or fails.
    """
    from port.pairs import register

    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"--pairs: there is no Python file {path}")
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"--pairs: {path} fails: {_told(error)}") from error
    for pair in getattr(module, "PAIRS", ()):
        register(pair)


def _built(made: Callable[..., Any], arguments: dict[str, Any], reference: str, option: str) -> Any:
    try:
        return made(**arguments)
    except Exception as error:
        given = json.dumps(arguments, default=repr)
        more = f"\n{advice(made, '--kwargs')}" if isinstance(error, TypeError | AttributeError) else ""
        raise UsageError(f"{option}: {reference} cannot be built with {given}: {_told(error)}{more}") from error


def _is_flaxs(cls: type) -> bool:
    """Whether a class is a Flax module's; imports no Flax."""
    families = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
    return bool(families & {"flax.nnx.module.Module", "flax.linen.module.Module"})


def wants_rngs(made: Any) -> bool:
    """Whether a Flax class or a function that builds a model takes ``rngs``."""
    try:
        # A class of nnx's takes anything by its metaclass: what its __init__ takes counts.
        return "rngs" in inspect.signature(made.__init__ if isinstance(made, type) else made).parameters  # type: ignore[misc]
    except (TypeError, ValueError):
        return False


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
