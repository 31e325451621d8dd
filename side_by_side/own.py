"""A user's own model, named on the command line: ``package.module:Name``, or ``path/to/file.py:Name``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.named import named


def found(reference: str, option: str) -> Any:
    """Import what a reference names; an installed package comes before a folder of that name in the current directory.

    Raises:
        UsageError: the module, file or name does not exist, or importing the module fails.
    """
    return named(reference, option, first=False)


def beside(reference: str | None, ending: str) -> Path | None:
    """NAME plus the ending, next to the NAME.py of a reference, which is not imported; None if it does not exist."""
    if reference is None:
        return None
    place = reference.rpartition(":")[0]
    if not place.endswith(".py"):
        spec = find_spec(place)
        place = spec.origin or "" if spec is not None else ""
    path = Path(place).with_suffix(ending) if place else Path(ending)
    return path if path.is_file() else None


def check_own(config: Any) -> None:
    """Check that a config's other options fit the user's own models, if it names any.

    Raises:
        UsageError: they do not.
    """
    if (config.torch_model is None) != (config.jax_model is None):
        raise UsageError("--torch-model and --jax-model belong together: pass both")
    if (config.torch_kwargs or config.jax_kwargs) and config.torch_model is None:
        raise UsageError("--torch-kwargs and --jax-kwargs are arguments of --torch-model and --jax-model: pass those")
    wrong = {
        "--model is for built-in models: leave it out": config.model != type(config).model,
        "--dropout is for built-in models: yours has its own rates": config.dropout is not None,
        "--batch-norm synchronised is for built-in models": config.replicas > 1 and config.batch_norm == "synchronised",
        "--uneven weight is for built-in models: choose --uneven pad": config.uneven == "weight"
        and not config.drop_last,
    }
    if config.torch_model is not None and any(wrong.values()):
        raise UsageError(next(message for message, is_wrong in wrong.items() if is_wrong))


def check_result(shape: Any, classes: int, option: str, reference: str) -> None:
    """Check that a model returns a row of logits for each of two images.

    Raises:
        UsageError: it returns something else.
    """
    if not (isinstance(shape, tuple) and len(shape) == 2 and shape[0] == 2 and shape[1] >= classes):
        wanted = f"(N, {classes})"
        raise UsageError(f"{option}: {reference} returns {shape} for two images; expected logits of shape {wanted}")


def cannot_take(error: Exception, option: str, reference: str, images: tuple[int, ...], dataset: str) -> UsageError:
    """The error for a model that does not accept a dataset's images."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
    return UsageError(f"{option}: {reference} does not take the images of {dataset}, {images}: {reason}")
