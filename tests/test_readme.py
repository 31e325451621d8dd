"""The front door: its commands are such as one may type, and each file that it shows or leads to is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from guide_blocks import blocks, parse, parse_command
from port.version import __version__

ROOT = Path(__file__).parents[1]
TEXTS = [
    *("README.md", "side_by_side/README.md", ".github/CONTRIBUTING.md", ".github/CHANGELOG.md", ".github/SECURITY.md"),
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
    assert [command.rpartition(" && ")[2] for command in commands] == [
        ".venv/bin/port train",
        ".venv/bin/python -m pytest",
    ]


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


def added(diff: str) -> dict[str, list[str]]:
    """File → the runs of lines that a diff adds to it."""
    parts: dict[str, list[str]] = {}
    file, fresh = "", True
    for line in diff.splitlines():
        if line.startswith("+++ b/"):
            file, fresh = line.removeprefix("+++ b/"), True
        elif line.startswith("+"):
            if fresh:
                parts.setdefault(file, []).append("")
            parts[file][-1] += line[1:] + "\n"
            fresh = False
        else:
            fresh = True
    return parts


def untrue(diff: str) -> list[str]:
    """What a diff adds, and its file does not have."""
    return [
        f"{file}:\n{part}" for file, parts in added(diff).items() for part in parts if part not in f"\n{text(file)}"
    ]


def test_each_diff_for_contributors_is_what_the_source_says() -> None:
    diffs = [block.content for block in blocks(text(".github/CONTRIBUTING.md")) if block.language == "diff"]
    assert len(diffs) == 3
    assert [untrue(diff) for diff in diffs] == [[], [], []]


def test_a_diff_that_is_out_of_date_is_seen() -> None:
    diff = "--- a/port/version.py\n+++ b/port/version.py\n+__version__ = 0\n"
    assert untrue(diff) == ["port/version.py:\n__version__ = 0\n"]


def test_the_changelog_has_this_version() -> None:
    assert f"\n## {__version__}\n" in text(".github/CHANGELOG.md")


FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("form", [form for form in FORMS if form.name != "config.yml"], ids=lambda form: form.stem)
def test_an_issue_form_is_one(form: Path) -> None:
    """What GitHub asks of a form (docs: syntax for issue forms)."""
    yaml = pytest.importorskip("yaml")
    read = yaml.safe_load(form.read_text("utf-8"))
    assert {"name", "description", "body"} <= read.keys() <= {"name", "description", "title", "labels", "body"}
    fields = [part for part in read["body"] if part["type"] != "markdown"]
    assert fields
    assert len({part["id"] for part in fields}) == len(fields)
    for part in read["body"]:
        assert part["type"] in ("markdown", "input", "textarea", "dropdown", "checkboxes")
        assert ("value" in part["attributes"]) if part["type"] == "markdown" else part["attributes"]["label"]
        if part["type"] == "input" and "port " in part["attributes"].get("placeholder", ""):
            parse_command(shlex.split(part["attributes"]["placeholder"]))
