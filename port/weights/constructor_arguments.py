"""The arguments of a model's constructor as far as JSON can say them, for the metadata of its weights file."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

COMMON = ("dtype", "param_dtype", "rngs")
"""What Flax's constructors take that says nothing of the weights."""
_NOTHING = object()


@dataclass(frozen=True)
class SaidArguments:
    """What a constructor is given.

    Attributes:
        values: as JSON says them: a configuration is its fields by their names. Defaults are among them.
        unsaid: what JSON cannot say, in words: by its name, or a configuration's and the field's: ``config.act``.
    """

    values: dict[str, Any] = field(default_factory=dict)
    unsaid: dict[str, str] = field(default_factory=dict)

    def metadata(self) -> dict[str, str]:
        """The arguments as a file's metadata; empty where there are none."""
        from port.nn.saved_arguments import ARGUMENTS

        return {ARGUMENTS: json.dumps(self.values, ensure_ascii=False)} if self.values else {}


def said_arguments(made: type, given: Mapping[str, Any]) -> SaidArguments:
    """What a constructor is given, defaults too.

    Args:
        made: the class.
        given: arguments by name.
    """
    defaults = {
        name: each.default
        for name, each in inspect.signature(made.__init__).parameters.items()  # type: ignore[misc]
        if each.default is not each.empty and name not in COMMON
    }
    unsaid: dict[str, str] = {}
    return SaidArguments(dict(_said({**defaults, **given}.items(), "", unsaid)), unsaid)


def _said(named: Iterable[tuple[str, Any]], before: str, unsaid: dict[str, str]) -> Iterable[tuple[str, Any]]:
    for name, value in named:
        if is_dataclass(value) and not isinstance(value, type):
            inside = ((each.name, getattr(value, each.name)) for each in fields(value) if each.init)
            yield name, dict(_said(inside, f"{before}{name}.", unsaid))
        elif (plain := _plain(value)) is not _NOTHING:
            yield name, plain
        else:
            unsaid[f"{before}{name}"] = str(getattr(value, "__qualname__", value))


def _plain(value: Any) -> Any:
    """A number, a text, None, or a list of them; `_NOTHING` for what JSON has no word for."""
    if isinstance(value, tuple | list):
        items = [_plain(item) for item in value]
        return _NOTHING if any(item is _NOTHING for item in items) else items
    is_said = value is None or type(value) in (bool, int, str) or (type(value) is float and abs(value) < float("inf"))
    return value if is_said else _NOTHING
