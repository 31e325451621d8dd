"""The reference: every public name is in it, with the signature and the line that Python itself tells."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from typing import Any

import pytest

from port.report.site.reference import ROOMS, ROOT, PublicName, reference

ROOM = {room.name: room for room in reference()}


def value(one: PublicName) -> Any:
    package, _, name = one.name.rpartition(".")
    return getattr(import_module(package), name)


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_there(room: str) -> None:
    module = import_module(room)
    public = getattr(module, "__all__", None)
    if public is None:
        public = [name for name, one in vars(module).items() if getattr(one, "__module__", None) == room]
    assert sorted(one.short for one in ROOM[room].names) == sorted(name for name in public if name[0] != "_")
    assert ROOM[room].summary


@pytest.mark.parametrize("room", ROOMS)
def test_a_name_leads_to_the_line_that_defines_it(room: str) -> None:
    for one in ROOM[room].all_names():
        line = (ROOT / one.file).read_text("utf-8").splitlines()[one.line - 1]
        assert one.short in line or line.startswith('"""'), (one.name, one.file, one.line)


@pytest.mark.parametrize("room", ROOMS)
def test_functions_take_what_python_says_that_they_take(room: str) -> None:
    for one in ROOM[room].names:
        if one.kind == "function" and inspect.isfunction(function := value(one)):
            written = ast.parse(f"def {one.signature.partition(' -> ')[0]}: ...").body[0]
            assert isinstance(written, ast.FunctionDef)
            found = [each.arg for each in (*written.args.posonlyargs, *written.args.args, *written.args.kwonlyargs)]
            parameters = inspect.signature(function).parameters.values()
            starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            assert found == [each.name for each in parameters if each.kind not in starred], one.name
            assert one.summary == " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split()), one.name


def test_a_docstrings_parts_are_told_apart() -> None:
    load = next(one for one in ROOM["port"].names if one.short == "load")
    assert load.summary == "Load weights into a module, in place."
    assert [each.title for each in load.described] == ["Parameters", "Returns", "Raises"]
    parameters, _, errors = load.described
    assert [name for name, _, _ in parameters.rows][:2] == ["module", "source"]
    assert {kind for _, kind, _ in errors.rows} >= {"BrokenWeights", "WeightsMismatch"}


def test_a_long_signature_has_an_argument_a_line() -> None:
    load = next(one for one in ROOM["port"].names if one.short == "load")
    lines = load.signature_lines()
    assert lines[:3] == ["load(", "    module: Any,", "    source: Path | str | Tree[str, Any] | Any,"]
    assert lines[-1] == ") -> PlacedWeights | None"
    joined = " ".join(map(str.strip, lines))
    assert joined.replace("( ", "(").replace(", )", ")") == load.signature


def test_dataclasses_are_called_by_their_fields() -> None:
    permute = next(one for one in ROOM["port.moves"].names if one.short == "Permute")
    assert permute.signature == "Permute(axes: tuple[int, ...])"
