"""The examples of ``--help``: every command has some, they are printed, and each is a command that one may type."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import import_module

import pytest
import tyro

from port.cli import COMMANDS, main
from port.cli.examples import EXAMPLES


@pytest.mark.parametrize("command", COMMANDS)
def test_each_example_is_understood(command: str) -> None:
    assert len(EXAMPLES[command]) >= 2
    for example in EXAMPLES[command].values():
        program, name, *given = shlex.split(example)
        assert (program, name) == ("port", command)
        given = given[: given.index("--")] if "--" in given else given
        tyro.cli(import_module(f"port.cli.{command}").Arguments, args=given)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_them(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert all(example in said for example in EXAMPLES[command].values())
    main(["--help"])
    assert next(iter(EXAMPLES[command].values())) in capsys.readouterr().out


def test_bad_usage_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--nothing-of-the-kind"])
    assert ended.value.code == 2
    assert "examples:" not in "".join(capsys.readouterr())


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_reader_who_has_read_enough() -> None:
    command = f"{sys.executable} -m port diff --table | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
