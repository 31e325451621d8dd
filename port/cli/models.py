"""A model named on the command line, ``package.module:name``: found and built, without its weights' memory."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from port.errors import UnknownChoice, UsageError


def named(reference: str, option: str) -> Any:
    """What ``package.module:name`` means; modules are also looked for where the user stands.

    Raises:
        UsageError: no such module or name, or the module fails when it is imported.
    """
    module_name, colon, attributes = reference.partition(":")
    if not colon or not module_name or not attributes:
        raise UsageError(f"{option} takes module:name, as in torchvision.models:resnet50; got {reference!r}")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = import_module(module_name)
    except Exception as error:
        raise UsageError(f"{option}: {module_name} cannot be imported: {_told(error)}") from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise UnknownChoice(f"name in {module_name}", attribute, [n for n in dir(found) if not n.startswith("_")])
        found = getattr(found, attribute)
    return found


def keywords(text: str | None, option: str) -> dict[str, Any]:
    """Constructor arguments from JSON.

    Raises:
        UsageError: no JSON object.
    """
    try:
        value = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise UsageError(f"{option} takes a JSON object, as in '{{\"width\": 64}}': {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{option} takes a JSON object, as in '{{\"width\": 64}}'; got {text}")
    return value


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
        with torch.device("meta"):
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
        return made(**given, rngs=nnx.Rngs(0)) if _wants_rngs(made) else made(**given)

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
        given = json.dumps(arguments)
        raise UsageError(f"{option}: {reference} cannot be built with {given}: {_told(error)}") from error


def _is_flaxs(cls: type) -> bool:
    """Whether a class is a Flax module's; imports no Flax."""
    families = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
    return bool(families & {"flax.nnx.module.Module", "flax.linen.module.Module"})


def _wants_rngs(made: Any) -> bool:
    try:
        # A class of nnx's takes anything by its metaclass: what its __init__ takes counts.
        return "rngs" in inspect.signature(made.__init__ if isinstance(made, type) else made).parameters  # type: ignore[misc]
    except (TypeError, ValueError):
        return False


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
