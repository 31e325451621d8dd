"""The workflows, the hooks and the oldest versions: what they call exists, and they cover what the project promises."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from port.cli import COMMANDS
from port.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = {path.name: path.read_text() for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
HOOKS = (ROOT / ".pre-commit-config.yaml").read_text()
PROGRAMS = {"pip", "port", "pytest", "python", "ruff", "mypy", "lint-imports"}
"""What a step may run beside files of the repository; all of it is installed by Python or by the extras."""


def jobs(text: str) -> dict[str, Any]:
    return yaml.safe_load(text)["jobs"]


def commands(text: str) -> Iterator[list[str]]:
    """Each step's command in words; what the matrix says stands as MATRIX."""
    for job in jobs(text).values():
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                yield shlex.split(re.sub(r"\$\{\{.*?\}\}", "MATRIX", line))


def faults(text: str) -> list[str]:
    """What a workflow calls and there is not."""
    found = []
    for words in commands(text):
        program = words[0]
        if "/" in program:
            if not os.access(ROOT / program, os.X_OK):
                found.append(f"{program} is no program")
        elif program not in PROGRAMS:
            found.append(f"{program} is not installed")
        if program == "port" and words[1] not in COMMANDS:
            found.append(f"port {words[1]} is no command")
        for place, word in enumerate(words):
            if word in ("-c", "-r") and not (ROOT / words[place + 1]).is_file():
                found.append(f"{words[place + 1]} is no file")
            extras = re.fullmatch(r"\.\[(.+)\]", word)
            if extras is not None:
                there = PROJECT["optional-dependencies"]
                found += [f"{extra} is no extra" for extra in extras[1].split(",") if extra not in there]
    for name, job in jobs(text).items():
        needs = job.get("needs", [])
        found += [
            f"{name} needs {other}"
            for other in ([needs] if isinstance(needs, str) else needs)
            if other not in jobs(text)
        ]
        for step in job["steps"]:
            if "uses" in step and not re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]):
                found.append(f"{step['uses']} is no release of an action")
            path = step.get("with", {}).get("cache-dependency-path", "pyproject.toml")
            if not (ROOT / path).is_file():
                found.append(f"{path} is no file")
    return found


@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_a_workflow_calls_exists(name: str) -> None:
    assert faults(WORKFLOWS[name]) == []


@pytest.mark.parametrize(
    ("name", "was", "becomes", "fault"),
    [
        ("tests.yml", ".ci/combination", ".ci/combinations", ".ci/combinations is no program"),
        ("tests.yml", "lint-imports", "lint-import", "lint-import is not installed"),
        ("tests.yml", ".[all,test]", ".[every,test]", "every is no extra"),
        ("tests.yml", "oldest.txt\n", "older.txt\n", ".github/older.txt is no file"),
        ("tests.yml", "needs: wheel", "needs: wheels", "extras needs wheels"),
        (
            "tests.yml",
            "actions/checkout@v4",
            "actions/checkout@main",
            "actions/checkout@main is no release of an action",
        ),
        ("site.yml", "port diff", "port difference", "port difference is no command"),
    ],
)
def test_what_does_not_exist_is_found(name: str, was: str, becomes: str, fault: str) -> None:
    assert was in WORKFLOWS[name]
    assert fault in faults(WORKFLOWS[name].replace(was, becomes))


def test_the_tests_run_on_what_is_promised() -> None:
    matrix = jobs(WORKFLOWS["tests.yml"])["tests"]["strategy"]["matrix"]
    assert PROJECT["requires-python"] == f">={matrix['python'][0]}"
    assert set(matrix["python"]) == {"3.11", "3.12", "3.13"}
    assert {each["versions"] for each in matrix["include"]} == {"oldest"}
    assert {system.split("-")[0] for system in matrix["system"]} == {"ubuntu", "macos"}
    extras = jobs(WORKFLOWS["tests.yml"])["extras"]["strategy"]["matrix"]["extras"]
    assert extras == ["core", *EXTRAS, "all"]


def test_ci_makes_every_combination() -> None:
    listed = re.search(r"for combination in (.+); do", (ROOT / ".ci" / "run").read_text())
    assert listed is not None
    assert listed[1].split() == ["core", *EXTRAS, "all"]


def test_the_oldest_versions_are_those_that_the_project_allows() -> None:
    wanted = [*PROJECT["dependencies"], *(each for extra in EXTRAS for each in PROJECT["optional-dependencies"][extra])]
    floors = {name: floor for name, _, floor in (each.partition(">=") for each in wanted)}
    lines = (ROOT / ".github" / "oldest.txt").read_text().splitlines()
    assert dict(line.split("==") for line in lines if not line.startswith("#")) == floors


def test_the_hooks_are_installed_with_the_project() -> None:
    hooks = [hook for repository in yaml.safe_load(HOOKS)["repos"] for hook in repository["hooks"]]
    programs = [hook["entry"].split()[0] for hook in hooks]
    assert programs == ["ruff", "ruff", "mypy", "lint-imports"]
    # Git names every file, also those that pyproject.toml leaves out.
    assert all("--force-exclude" in hook["entry"].split() for hook in hooks if hook["entry"].startswith("ruff"))
    beside = Path(sys.executable).parent
    assert all((beside / program).exists() or shutil.which(program) for program in programs)
