"""The arguments of a written model's constructor, as its weights file says them: JSON in the file's metadata."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from port.errors import BrokenWeights, WeightsMismatch

ARGUMENTS = "port.arguments"
"""The name of them in the file's metadata."""
_COMMON = ("dtype", "param_dtype", "rngs")


def saved_arguments(path: str | Path, made: type, options: dict[str, Any], /, **own: Any) -> dict[str, Any]:
    """What a model is constructed with to hold the weights of a file.

    Args:
        path: of a safetensors file. What it says goes before ``own``; one that says nothing leaves that as it is.
        made: the class; the file's arguments are those of its constructor.
        options: that go before both.
        own: arguments of the model that the source was written for.

    Raises:
        BrokenWeights: what the file says cannot be read.
        WeightsMismatch: it names arguments, or a configuration's fields, that the class does not take.
    """
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        text = (file.metadata() or {}).get(ARGUMENTS, "{}")
    try:
        told = json.loads(text)
    except ValueError as error:
        raise BrokenWeights(f"{path}: the constructor's arguments in its metadata are not JSON: {error}") from error
    if not isinstance(told, dict):
        raise BrokenWeights(f"{path}: the constructor's arguments in its metadata are no names with values")
    # nnx's classes themselves take anything: what counts is their __init__.
    parameters = dict(inspect.signature(made.__init__).parameters)  # type: ignore[misc]
    del parameters["self"]
    if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        _check_known(path, told, parameters, "the constructor")
    known = {name: each.default for name, each in parameters.items()} | own
    return own | {name: _like(path, known.get(name), value) for name, value in told.items()} | options


def _like(path: str | Path, own: Any, told: Any) -> Any:
    """What a file says of an argument, in the form that the source has it in: a configuration, a tuple."""
    if is_dataclass(own) and not isinstance(own, type) and isinstance(told, dict):
        _check_known(path, told, [each.name for each in fields(own)], type(own).__name__)
        return replace(own, **{name: _like(path, getattr(own, name), value) for name, value in told.items()})
    return tuple(told) if isinstance(own, tuple) and isinstance(told, list) else told


def _check_known(path: str | Path, told: Iterable[str], known: Iterable[str], what: str) -> None:
    if unknown := sorted({*told} - {*known}):
        takes = ", ".join(name for name in known if name not in _COMMON)
        raise WeightsMismatch(
            f"{path} holds the weights of a model with {', '.join(unknown)}, which {what} of this source does not "
            f"take; it takes {takes}. Load the file into the source that it was made for"
        )
