"""Constructor arguments of a generated model, kept as JSON in the metadata of its weights file."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from port.errors import BrokenWeights, WeightsMismatch
from port.nn.weights_file import open_weights

ARGUMENTS = "port.arguments"
"""Their key in the file's metadata."""
_COMMON = ("dtype", "param_dtype", "rngs")


def saved_arguments(path: str | Path, made: type, options: dict[str, Any], /, **own: Any) -> dict[str, Any]:
    """Return the constructor arguments of the model whose weights a file holds.

    Args:
        path: of a safetensors file. Its arguments override ``own``; a file may have none.
        made: the class to construct.
        options: arguments that override both.
        **own: arguments of the model that the source was generated from.

    Raises:
        BrokenWeights: it is not a safetensors file; its arguments cannot be read.
        WeightsMismatch: the file has arguments, or fields of a configuration, that the class does not take.
    """
    with open_weights(path) as file:
        text = (file.metadata() or {}).get(ARGUMENTS, "{}")
    try:
        saved = json.loads(text)
    except ValueError as error:
        raise BrokenWeights(f"{path}: the constructor's arguments in its metadata are not JSON: {error}") from error
    if not isinstance(saved, dict):
        raise BrokenWeights(f"{path}: the constructor's arguments in its metadata are not a JSON object")
    # The signature of an nnx class accepts anything: ask its __init__.
    parameters = dict(inspect.signature(made.__init__).parameters)  # type: ignore[misc]
    del parameters["self"]
    if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        _check_known(path, saved, parameters, "the constructor")
    known = {name: each.default for name, each in parameters.items()} | own
    return own | {name: _like(path, known.get(name), value) for name, value in saved.items()} | options


def _like(path: str | Path, own: Any, saved: Any) -> Any:
    """Convert a file's argument to the type of the source's own: a configuration, a tuple."""
    if is_dataclass(own) and not isinstance(own, type) and isinstance(saved, dict):
        _check_known(path, saved, [each.name for each in fields(own)], type(own).__name__)
        return replace(own, **{name: _like(path, getattr(own, name), value) for name, value in saved.items()})
    return tuple(saved) if isinstance(own, tuple) and isinstance(saved, list) else saved


def _check_known(path: str | Path, names: Iterable[str], known: Iterable[str], what: str) -> None:
    if unknown := sorted({*names} - {*known}):
        takes = ", ".join(name for name in known if name not in _COMMON)
        raise WeightsMismatch(
            f"{path} holds the weights of a model with {', '.join(unknown)}, which {what} of this source does not "
            f"take; it takes {takes}. Load the file into the source that it was saved for"
        )
