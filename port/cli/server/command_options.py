"""A command's options as JSON: their schema, read from its dataclass, and the command line that a call stands for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from importlib import import_module
from typing import Any, get_type_hints

from port.errors import UnknownChoice, UsageError

DECIDED = ("json", "plain", "open", "observe_only")
"""Options that a tool does not have: its result is read by a program, on no terminal, and is of one schema."""
TAKE_MORE = ("script", "train")
"""Commands that pass what follows ``--`` on to a script."""
SCRIPT_ARGUMENTS = "script_arguments"


def options_of(command: str) -> type[Any]:
    """The dataclass of a command's options."""
    found: type[Any] = import_module(f"port.cli.{command}").Arguments
    return found


def description_of(command: str) -> str:
    """What a command does, and its exit codes: the docstring of its options."""
    return inspect.cleandoc(options_of(command).__doc__ or "")


def schema_of(command: str) -> dict[str, Any]:
    """The JSON schema of a command's options, by the names that its dataclass gives them."""
    found = _schema(options_of(command))
    properties = {name: one for name, one in found["properties"].items() if name not in DECIDED}
    if command in TAKE_MORE:
        properties[SCRIPT_ARGUMENTS] = {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "The script's own arguments: what follows -- on the command line",
        }
    required = [name for name in found.get("required", ()) if name in properties]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def command_line(command: str, options: Mapping[str, Any]) -> list[str]:
    """The arguments of ``port`` that say the same.

    Args:
        command: its name.
        options: values by the names of the schema.

    Raises:
        UnknownChoice: an option that the command does not have.
        UsageError: a value that is not of the option's type.
    """
    known = {field.name: field for field in _flat(options_of(command)) if field.name not in DECIDED}
    more = options.get(SCRIPT_ARGUMENTS, []) if command in TAKE_MORE else []
    places: list[str] = []
    flags: list[str] = []
    for name, value in options.items():
        if name == SCRIPT_ARGUMENTS and command in TAKE_MORE:
            continue
        if name not in known:
            raise UnknownChoice(f"option of port {command}", name, known)
        if value is None or value == known[name].default:
            continue
        if "Positional" in str(known[name].type):
            places += [str(each) for each in value] if isinstance(value, list) else [str(value)]
        else:
            flags += _flag(name, value)
    if not isinstance(more, list):
        raise UsageError(f"{SCRIPT_ARGUMENTS} is a list of texts, and {more!r} is none")
    behind = ["--", *map(str, more)] if more else []
    return [command, *places, *flags, "--json", *behind]


def _flag(name: str, value: Any) -> list[str]:
    """An option as it is typed; one that may be repeated, once for each value."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag] if value else [f"--no-{flag[2:]}"]
    if isinstance(value, list):
        return [word for each in value for word in (flag, *map(str, each if isinstance(each, list) else [each]))]
    return [flag, str(value)]


def _schema(options: type[Any]) -> dict[str, Any]:
    """The schema of a dataclass, each field's docstring as its description; dataclasses within are flattened."""
    import pydantic

    within: list[Any] = [one for field in fields(options) if is_dataclass(one := _type(options, field))]
    for one in [options, *within]:
        one.__pydantic_config__ = {"use_attribute_docstrings": True}  # where pydantic looks in a plain dataclass
    found = pydantic.TypeAdapter(options).json_schema()
    definitions = found.get("$defs", {})
    for field in fields(options):
        name = found["properties"].get(field.name, {}).get("$ref", "").rpartition("/")[2]
        if name and is_dataclass(_type(options, field)):
            del found["properties"][field.name]
            found["properties"] |= definitions.pop(name)["properties"]
    return found


def _flat(options: type[Any]) -> Iterator[Field[Any]]:
    """A dataclass's fields, with those of dataclasses within."""
    for field in fields(options):
        within = _type(options, field)
        if isinstance(within, type) and is_dataclass(within):
            yield from _flat(within)
        else:
            yield field


def _type(options: type[Any], field: Field[Any]) -> Any:
    return get_type_hints(options).get(field.name)
