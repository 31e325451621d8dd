"""port.named: names, files, and arguments of JSON and names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from port.errors import UsageError
from port.named import advice, arguments, named, spelled_arguments

MODULE = '''
from dataclasses import dataclass


@dataclass
class Config:
    width: int = 8
    act: object = None


class Net:
    """Needs a Config."""

    def __init__(self, config):
        self.config = config

    class Inner:
        pass


def options():
    return {"config": Config(5)}


FIXED = {"config": 3}
WRONG = [1]
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "named_things.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "named_things", raising=False)
    import named_things

    return named_things


def test_a_module_and_a_file(module: Any) -> None:
    assert named("named_things:Net.Inner", "--x") is module.Net.Inner
    assert named("named_things.py:Net", "--x").__name__ == "Net"
    with pytest.raises(UsageError, match=r"no file gone\.py"):
        named("gone.py:Net", "--x")
    with pytest.raises(UsageError, match=r"--x: named_things\.py cannot be imported"):
        named("named_things.py:Net", "--x", files=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {}),
        ('{"width": 64, "name": "a:b"}', {"width": 64, "name": "a:b"}),
        ('{"config": {"@named_things:Config": {"width": 3}}}', "Config(width=3, act=None)"),
        ('{"config": {"@named_things:Config": {"act": "@named_things:options"}}}', "Config(width=8, act=<function"),
        ('{"all": [{"@named_things:Config": {}}, {"a": "@named_things:FIXED"}]}', "Config(width=8, act=None)"),
        ("named_things:options", "Config(width=5, act=None)"),
        ("@named_things:FIXED", {"config": 3}),
    ],
)
def test_arguments(text: str | None, expected: Any, module: Any) -> None:
    found = arguments(text, "--kwargs")
    assert found == expected if isinstance(expected, dict) else expected in repr(found)
    if text is not None and text.startswith("{"):
        assert isinstance(spelled_arguments(text, "--kwargs"), dict)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{width: 4}", "--kwargs takes a JSON object"),
        ("[4]", "--kwargs takes a JSON object"),
        ("width", "--kwargs takes a JSON object"),
        ('{"config": {"@named_things:Config": {"n": 1}}}', "calling @named_things:Config failed: TypeError"),
        ('{"config": {"@named_things:Config": [1]}}', "called with keyword arguments"),
        ('{"config": "@named_things:Confg"}', "unknown name in named_things 'Confg'"),
        ("named_things:WRONG", "not a dict of arguments"),
    ],
)
def test_what_is_none(text: str, told: str, module: Any) -> None:
    with pytest.raises(UsageError, match=told):
        arguments(text, "--kwargs")


def test_the_advice_names_the_modules_own_dataclass(module: Any) -> None:
    assert """--kwargs '{"config": {"@named_things:Config": {"width": …}}}' calls Config""" in advice(
        module.Net, "--kwargs"
    )
    assert "@my_package.model:Config" in advice(Path, "--kwargs")
