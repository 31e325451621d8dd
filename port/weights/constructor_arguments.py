"""The arguments of a model's constructor as JSON, as far as possible, for the metadata of its weights file."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

COMMON = ("dtype", "param_dtype", "rngs")
"""Arguments of Flax constructors that do not affect the weights."""
_NOTHING = object()


@dataclass(frozen=True)
class SaidArguments:
    """The arguments of a constructor call.

    Attributes:
        values: the arguments as JSON, including defaults: a configuration is its fields by name.
        unsaid: the names of arguments without a JSON form, or of a configuration's field: ``config.act``.
    """

    values: dict[str, Any] = field(default_factory=dict)
    unsaid: dict[str, str] = field(default_factory=dict)

    def metadata(self) -> dict[str, str]:
        """The arguments as a file's metadata; empty if there are none."""
        from port.nn.saved_arguments import ARGUMENTS

        return {ARGUMENTS: json.dumps(self.values, ensure_ascii=False)} if self.values else {}


def said_arguments(made: type, arguments: Mapping[str, Any]) -> SaidArguments:
    """Convert a constructor's arguments, including defaults.

    Args:
        made: the class.
        arguments: the constructor's, by name.
    """
    defaults = {
        name: each.default
        for name, each in inspect.signature(made.__init__).parameters.items()  # type: ignore[misc]
        if each.default is not each.empty and name not in COMMON
    }
    unsaid: dict[str, str] = {}
    return SaidArguments(dict(_as_json({**defaults, **arguments}.items(), "", unsaid)), unsaid)


def _as_json(named: Iterable[tuple[str, Any]], before: str, unsaid: dict[str, str]) -> Iterable[tuple[str, Any]]:
    for name, value in named:
        if is_dataclass(value) and not isinstance(value, type):
            inside = ((each.name, getattr(value, each.name)) for each in fields(value) if each.init)
            yield name, dict(_as_json(inside, f"{before}{name}.", unsaid))
        elif (plain := _plain(value)) is not _NOTHING:
            yield name, plain
        else:
            unsaid[f"{before}{name}"] = str(getattr(value, "__qualname__", value))


def _plain(value: Any) -> Any:
    """A number, a string, None, or a list of them; `_NOTHING` for values without a JSON form."""
    if isinstance(value, tuple | list):
        items = [_plain(item) for item in value]
        return _NOTHING if any(item is _NOTHING for item in items) else items
    is_said = value is None or type(value) in (bool, int, str) or (type(value) is float and abs(value) < float("inf"))
    return value if is_said else _NOTHING
