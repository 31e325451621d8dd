"""A model of one's own, named on the command line: ``package.module:Name``, or ``path/to/file.py:Name``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.named import named


def found(reference: str, option: str) -> Any:
    """What a reference means; an installed package comes before a folder of its name where the user stands.

    Raises:
        UsageError: no such module, file or name, or the module fails when it is imported.
    """
    return named(reference, option, first=False)


def beside(reference: str | None, ending: str) -> Path | None:
    """NAME plus the ending, beside the NAME.py that a reference names and that is not imported; None: there is none."""
    if reference is None:
        return None
    place = reference.rpartition(":")[0]
    if not place.endswith(".py"):
        spec = find_spec(place)
        place = spec.origin or "" if spec is not None else ""
    path = Path(place).with_suffix(ending) if place else Path(ending)
    return path if path.is_file() else None


def check_own(config: Any) -> None:
    """See that a config's other options go with models of one's own, if it names any.

    Raises:
        UsageError: they do not.
    """
    if (config.torch_model is None) != (config.jax_model is None):
        raise UsageError("--torch-model and --jax-model belong together: give both")
    if (config.torch_kwargs or config.jax_kwargs) and config.torch_model is None:
        raise UsageError("--torch-kwargs and --jax-kwargs are arguments of --torch-model and --jax-model: give those")
    wrong = {
        "--model is of our own models: leave it out": config.model != type(config).model,
        "--dropout is of our own models: yours has its own rates": config.dropout is not None,
        "--batch-norm synchronised is of our own models": config.replicas > 1 and config.batch_norm == "synchronised",
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
