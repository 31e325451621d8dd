"""The front door: its commands are such as one may type, and each file that it shows or leads to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guide_blocks import blocks, parse

ROOT = Path(__file__).parents[1]
TEXTS = [
    *("README.md", "side_by_side/README.md", ".github/CONTRIBUTING.md", ".github/CHANGELOG.md"),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "port" / "guides").glob("*.md"))),
]


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("name", TEXTS)
def test_each_command_is_understood(name: str) -> None:
    for block in blocks(text(name)):
        parse(block)


def test_there_are_two_commands_to_install_and_to_test() -> None:
    """.ci/run takes them from here."""
    commands = re.findall(r"^    python3 -m venv \.venv && .*$", text("README.md"), re.M)
    assert [command.rpartition(" && ")[2] for command in commands] == [".venv/bin/port train", ".venv/bin/python -m pytest"]


@pytest.mark.parametrize("name", TEXTS)
def test_each_link_leads_to_a_file(name: str) -> None:
    links = re.findall(r"\]\(([^()#\s]+)(?:#[\w-]*)?\)", text(name))
    for link in links:
        assert "://" in link or (ROOT / name).parent.joinpath(link).exists(), link


def test_every_picture_is_shown() -> None:
    shown = set(re.findall(r"\]\(\.readme/([\w.]+)\)", text("README.md")))
    assert shown == {path.name for path in (ROOT / ".readme").iterdir()}


def test_the_front_door_is_short() -> None:
    assert len(text("README.md").splitlines()) <= 120
