"""Resolve what users name on the command line: ``package.module:name``, ``file.py:name``, JSON arguments, shapes."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

from port.errors import UnknownChoice, UsageError

SIGN = "@"
"""Marks a reference among JSON arguments: ``"@module:name"``."""


def named(reference: str, option: str, *, files: bool = True, first: bool = True) -> Any:
    """Import the object that a reference names; modules in the current directory are found, too.

    Args:
        reference: ``package.module:name``, or ``path/to/file.py:name``; a name may have dots.
        option: the option it was passed to, for error messages.
        files: whether a file is allowed.
        first: whether the current directory is searched before the installed packages, or after them.

    Raises:
        UsageError: the module, file or name does not exist, or importing the module fails.
    """
    place, colon, attributes = reference.rpartition(":")
    if not colon or not place or not attributes:
        forms = "module:name or file.py:name" if files else "module:name"
        raise UsageError(f"{option} takes {forms}, as in torchvision.models:resnet50; got {reference!r}")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0 if first else len(sys.path), here)
    try:
        found: Any = _file(Path(place), option) if files and place.endswith(".py") else import_module(place)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{option}: {place} cannot be imported: {type(error).__name__}: {error}") from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise UnknownChoice(f"name in {place}", attribute, [n for n in dir(found) if not n.startswith("_")])
        found = getattr(found, attribute)
    return found


def _file(path: Path, option: str) -> ModuleType:
    # Registered under a name that shadows no real module.
    spec = spec_from_file_location(f"own_file_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{option}: there is no file {path}")
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


# %% Shapes

_SHAPE = re.compile(r"(\d+(?:,\d+)*)?(?::(\w+))?|(\w+):(\d+(?:,\d+)*)")


def named_shape(text: str) -> tuple[tuple[int, ...], str]:
    """Parse the shape and dtype of an example input: ``1,3,224,224``, ``1,16:int64`` or ``int64:1,16``.

    The dtype defaults to float32; without sizes, as in ``:float32``, the input is a scalar.

    Raises:
        UsageError: ``text`` is not a shape.
    """
    found = _SHAPE.fullmatch(text.replace(" ", ""))
    if found is None or not text.strip():
        raise UsageError(f"an input is a shape, as in 1,3,224,224, or with a dtype, as in 1,16:int64; got {text!r}")
    sizes = (found[1] or found[4] or "").split(",")
    return tuple(int(size) for size in sizes if size), found[2] or found[3] or "float32"


def too_large(text: str, sizes: tuple[int, ...]) -> UsageError:
    """Return the error for an example input that does not fit into memory.

    Args:
        text: as it was passed.
        sizes: of its shape.
    """
    numbers = prod(sizes)
    said = f"{numbers:,}" if numbers < 10**18 else f"more than {10**18:,}"
    return UsageError(
        f"an input of shape {text} does not fit into the memory here: it has {said} numbers, each drawn in 8 bytes; "
        "pass a smaller shape"
    )


# %% Arguments


def spelled_arguments(text: str | None, option: str) -> Any:
    """Parse arguments: a JSON object, or a reference ``module:name``, returned as the string ``@module:name``.

    Raises:
        UsageError: ``text`` is neither.
    """
    text = (text or "{}").strip()
    if text.startswith(SIGN) or (":" in text and text[:1] not in tuple('{["') and " " not in text):
        return SIGN + text.removeprefix(SIGN)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{option} takes a JSON object, as in '{{\"width\": 64}}', or module:name; {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{option} takes a JSON object, as in '{{\"width\": 64}}', or module:name; got {text}")
    return value


def arguments(text: str | None, option: str) -> dict[str, Any]:
    """Parse constructor arguments from JSON and references.

    ``text`` is a JSON object, or ``module:name`` of a dict or of a function that returns one. Inside the JSON object,
    the string ``"@module:name"`` is the named object itself, and ``{"@module:name": {…}}`` calls it with these
    arguments: ``{"config": {"@model:GPTConfig": {"n_layer": 2}}}``.

    Raises:
        UsageError: not a JSON object, a name that does not exist, or a call that fails.
    """
    spelled = spelled_arguments(text, option)
    if isinstance(spelled, dict):
        return {name: _meant(value, option) for name, value in spelled.items()}
    found = _meant(spelled, option)
    found = _called(found, {}, spelled, option) if callable(found) else found
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{option}: {spelled} is or returns {type(found).__qualname__}, not a dict of arguments")
    return found


def advice(made: Any, option: str) -> str:
    """Explain how to pass an argument that JSON cannot express, using the module's own dataclass if it has one."""
    module = sys.modules.get(getattr(made, "__module__", ""), None)
    configs = (
        [
            name
            for name, thing in vars(module).items()
            if isinstance(thing, type) and is_dataclass(thing) and thing.__module__ == module.__name__
        ]
        if module is not None
        else []
    )
    name = f"{made.__module__}:{configs[0]}" if configs else "my_package.model:Config"
    inner = next((field.name for field in fields(getattr(module, configs[0]))), "width") if configs else "width"
    example = f'\'{{"config": {{"{SIGN}{name}": {{"{inner}": …}}}}}}\''
    return (
        f'name what JSON cannot say: {option} {example} calls {name.rpartition(":")[2]}, "{SIGN}module:name" is '
        "the object itself; or name a function of your own that takes no arguments and returns the model"
    )


def _meant(value: Any, option: str) -> Any:
    match value:
        case str() if value.startswith(SIGN):
            return named(value.removeprefix(SIGN), option)
        case dict() if len(value) == 1 and next(iter(value)).startswith(SIGN):
            [(name, keywords)] = value.items()
            if not isinstance(keywords, dict):
                raise UsageError(
                    f"{option}: {name} is called with keyword arguments, as in {{}}; got {json.dumps(keywords)}"
                )
            taken = {key: _meant(item, option) for key, item in keywords.items()}
            return _called(named(name.removeprefix(SIGN), option), taken, name, option)
        case dict():
            return {key: _meant(item, option) for key, item in value.items()}
        case list():
            return [_meant(item, option) for item in value]
        case _:
            return value


def _called(made: Any, keywords: dict[str, Any], name: str, option: str) -> Any:
    try:
        return made(**keywords)
    except Exception as error:
        raise UsageError(f"{option}: calling {name} failed: {type(error).__name__}: {error}") from error
