"""A command's options as JSON schema, and the command line that a call stands for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import jsonschema
import pytest
import tyro

from port.cli.server.command_options import command_line, schema_of
from port.errors import UnknownChoice, UsageError

pytest.importorskip("pydantic", reason="the extra mcp is not installed")

COMMANDS = ("translate", "convert", "check", "match", "script", "train", "compare")
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "translate": (
        {"target": "a:B", "input": ["1,3", "2:int64"], "remat": ["Block"], "at": ['{"n": 2}'], "sizes_limit": 0.5},
        {"target": "a:B", "input": ("1,3", "2:int64"), "remat": ("Block",), "at": ('{"n": 2}',), "sizes_limit": 0.5},
    ),
    "convert": ({"source": "net.pth", "torch": "a:B", "reverse": True, "fold": ["fc=5,7"]}, {"reverse": True}),
    "check": ({"torch": "a:B", "flax": "c:D", "kwargs": '{"w": 1}', "steps": 0}, {"flax": "c:D", "steps": 0}),
    "match": ({"torch": "a:B", "flax": "c:D", "rename": [r"^a\.(\d)=b.\1"]}, {"rename": (r"^a\.(\d)=b.\1",)}),
    "script": ({"script": "train.py", "watch": 7, "standalone": True}, {"watch": 7, "standalone": True}),
    "train": ({"torch_script": "a.py", "jax_script": "b.py", "steps": 5, "precision": "float64"}, {}),
    "compare": ({"a": "a.jsonl", "b": "b.jsonl", "control": [["c", "d"]]}, {}),
}


def understood(command: str, line: list[str]) -> Any:
    """What the command itself reads from the line."""
    name, *rest = line
    assert name == command
    return tyro.cli(import_module(f"port.cli.{command}").Arguments, args=rest)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_reads_what_the_call_says(command: str) -> None:
    options, expected = CALLS[command]
    jsonschema.validate(options, schema_of(command))
    read = understood(command, command_line(command, options))
    assert read.json is True
    for name, value in expected.items():
        assert getattr(read, name) == value
    if command == "train":
        assert (read.config.steps, read.config.precision) == (5, "float64")
    if command == "compare":
        assert [str(path) for path in read.control[0]] == ["c", "d"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_described(command: str) -> None:
    schema = schema_of(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [name for name, one in schema["properties"].items() if not one.get("description")] == []
    assert not {"json", "plain", "open", "observe_only"} & set(schema["properties"])


def test_a_scripts_own_arguments_come_last() -> None:
    line = command_line("script", {"script_arguments": ["--epochs", "2"], "script": "train.py"})
    assert line == ["script", "train.py", "--json", "--", "--epochs", "2"]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"targets": "a:B"}, UnknownChoice, "target"),
        ({"json": False}, UnknownChoice, "json"),
        ({"script_arguments": ["--lr"]}, UnknownChoice, "script_arguments"),
    ],
)
def test_an_option_that_is_not_there(options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        command_line("translate", options)


def test_arguments_that_are_no_list() -> None:
    with pytest.raises(UsageError, match="a list of texts"):
        command_line("script", {"script": "train.py", "script_arguments": "--lr 1"})


def test_a_wrong_type_is_no_value_of_the_schema() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"torch": "a:B", "flax": "c:D", "steps": "three"}, schema_of("check"))
