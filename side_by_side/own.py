"""A model of one's own, named on the command line: ``package.module:Name``, or ``path/to/file.py:Name``."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from port.errors import UnknownChoice, UsageError


def found(reference: str, option: str) -> Any:
    """What a reference means; modules are also looked for where the user stands.

    Raises:
        UsageError: no such module, file or name, or the module fails when it is imported.
    """
    place, colon, attributes = reference.rpartition(":")
    if not colon or not place or not attributes:
        raise UsageError(f"{option} takes module:Name or file.py:Name, as in my_package.model:Net; got {reference!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a folder named jax or torch must not be imported
    try:
        thing: Any = _file(Path(place), option) if place.endswith(".py") else import_module(place)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{option}: {place} cannot be imported: {type(error).__name__}: {error}") from error
    for attribute in attributes.split("."):
        if not hasattr(thing, attribute):
            raise UnknownChoice(f"name in {place}", attribute, [n for n in dir(thing) if not n.startswith("_")])
        thing = getattr(thing, attribute)
    return thing


def _file(path: Path, option: str) -> ModuleType:
    # A name that hides no module of the same name.
    spec = spec_from_file_location(f"own_file_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{option}: there is no file {path}")
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def check_own(config: Any) -> None:
    """See that a config's other options go with models of one's own, if it names any.

    Raises:
        UsageError: they do not.
    """
    if (config.torch_model is None) != (config.jax_model is None):
        raise UsageError("--torch-model and --jax-model belong together: give both")
    wrong = {
        "--model is of our own models: leave it out": config.model != type(config).model,
        "--dropout is of our own models: yours has its own rates": config.dropout is not None,
        "--batch-norm synchronised is of our own models": config.replicas > 1 and config.statistics == "synchronised",
        "--uneven weight is of our own models: take --uneven pad": config.uneven == "weight" and not config.drop_last,
    }
    if config.torch_model is not None and any(wrong.values()):
        raise UsageError(next(message for message, given in wrong.items() if given))


def check_result(shape: Any, classes: int, option: str, reference: str) -> None:
    """See that a model gives a row of logits for each of two images.

    Raises:
        UsageError: it gives something else.
    """
    if not (isinstance(shape, tuple) and len(shape) == 2 and shape[0] == 2 and shape[1] >= classes):
        wanted = f"(N, {classes})"
        raise UsageError(f"{option}: {reference} gives {shape} for two images; logits of shape {wanted} are trained on")


def cannot_take(error: Exception, option: str, reference: str, images: tuple[int, ...], dataset: str) -> UsageError:
    """What is wrong with a model that does not take a dataset's images."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
    return UsageError(f"{option}: {reference} does not take the images of {dataset}, {images}: {told}")
