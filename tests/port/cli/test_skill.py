"""`port skill`: the guide for assistants is short, and every command line in it is one that the commands read."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
import tyro

from port.cli import COMMANDS, main
from port.cli.skill import skill

LINES = 80


def commands() -> list[str]:
    """Every command line of the guide, without its comment."""
    return [line.partition("  #")[0].strip() for line in skill().splitlines() if line.startswith("    port ")]


def test_it_is_short_and_says_what_it_is_for() -> None:
    lines = skill().splitlines()
    assert len(lines) <= LINES
    assert re.fullmatch(r"---\nname: port\ndescription: .+\n---", "\n".join(lines[:4]))


@pytest.mark.parametrize("line", commands())
def test_each_command_line_is_understood(line: str) -> None:
    _, name, *given = shlex.split(line)
    given = given[: given.index("--")] if "--" in given else given
    tyro.cli(import_module(f"port.cli.{name}").Arguments, args=given)


def test_it_names_every_command_that_moves_or_proves() -> None:
    named = {shlex.split(line)[1] for line in commands()}
    assert named >= set(COMMANDS) - {"diff", "mcp", "skill", "compare", "report"}


def test_it_is_written_to_a_file_and_over_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "skills" / "port" / "SKILL.md"
    assert main(["skill", "-o", str(file)]) == 0
    assert file.read_text("utf-8") == skill()
    file.write_text("mine")
    assert main(["skill", "-o", str(file)]) == 2
    assert file.read_text("utf-8") == "mine" and "is there already" in capsys.readouterr().err
