"""What a person names in words: ``package.module:name``, ``file.py:name``, arguments of JSON and such names, shapes."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from port.errors import UnknownChoice, UsageError

SIGN = "@"
"""Before a name among JSON arguments."""


def named(reference: str, option: str, *, files: bool = True, first: bool = True) -> Any:
    """What a reference means; modules are also looked for where the user stands.

    Args:
        reference: ``package.module:name``, or ``path/to/file.py:name``; a name may have dots.
        option: which gave it, for the message.
        files: whether a file may be named.
        first: whether the user's folder comes before the installed packages, or behind them.

    Raises:
        UsageError: no such module, file or name, or the module fails when it is imported.
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
    # Under a name that hides no module of the same name.
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
    """The sizes and the dtype's name of an example input: ``1,3,224,224``, ``1,16:int64`` or ``int64:1,16``.

    Without a dtype it is float32; without sizes, as in ``:float32``, a scalar.

    Raises:
        UsageError: no shape.
    """
    found = _SHAPE.fullmatch(text.replace(" ", ""))
    if found is None or not text.strip():
        raise UsageError(f"an input is a shape, as in 1,3,224,224, or with a dtype, as in 1,16:int64; got {text!r}")
    sizes = (found[1] or found[4] or "").split(",")
    return tuple(int(size) for size in sizes if size), found[2] or found[3] or "float32"


# %% Arguments


def spelled_arguments(text: str | None, option: str) -> Any:
    """Arguments as they were written: a JSON object, or the string ``@module:name`` in its place.

    Raises:
        UsageError: neither.
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
    """Constructor arguments from JSON and names.

    In place of the JSON object may stand ``module:name``: a dict, or a function that gives one. Within it the string
    ``"@module:name"`` is what the name means, and ``{"@module:name": {…}}`` is what it gives, called with those
    arguments: ``{"config": {"@model:GPTConfig": {"n_layer": 2}}}``.

    Raises:
        UsageError: no JSON object, a name that is not there, or a call that fails.
    """
    spelled = spelled_arguments(text, option)
    if isinstance(spelled, dict):
        return {name: _meant(value, option) for name, value in spelled.items()}
    found = _meant(spelled, option)
    found = _called(found, {}, spelled, option) if callable(found) else found
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{option}: {spelled} is or gives {type(found).__qualname__}, no dict of arguments by name")
    return found


def advice(made: Any, option: str) -> str:
    """How an argument that JSON has no form for is given; with the module's own dataclass, if it has one."""
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
        f'what JSON cannot say has a name: {option} {example} calls {name.rpartition(":")[2]}, "{SIGN}module:name" is '
        "the thing itself; or name a function of your own that takes nothing and gives the model"
    )


def _meant(value: Any, option: str) -> Any:
    match value:
        case str() if value.startswith(SIGN):
            return named(value.removeprefix(SIGN), option)
        case dict() if len(value) == 1 and next(iter(value)).startswith(SIGN):
            [(name, given)] = value.items()
            if not isinstance(given, dict):
                raise UsageError(
                    f"{option}: {name} is called with arguments by name, as in {{}}; got {json.dumps(given)}"
                )
            taken = {key: _meant(item, option) for key, item in given.items()}
            return _called(named(name.removeprefix(SIGN), option), taken, name, option)
        case dict():
            return {key: _meant(item, option) for key, item in value.items()}
        case list():
            return [_meant(item, option) for item in value]
        case _:
            return value


def _called(made: Any, given: dict[str, Any], name: str, option: str) -> Any:
    try:
        return made(**given)
    except Exception as error:
        raise UsageError(f"{option}: {name} cannot be called so: {type(error).__name__}: {error}") from error
