"""The fenced examples of a Markdown text: read, parsed without being run, and run in order in one folder.

What follows a fence's language says what a block is:

    ```python                       runs, in the guide's one namespace
    ```python title="net.py"        is written as a file; with ``append`` after it, at that file's end
    ```sh                           each `port …` line runs by `port.cli`, each `python …` line in a process
    ```sh exit=1                    so it does, and ends with that exit code
    ```sh elsewhere                 needs what is not here (machines, downloads): its `port` lines are parsed
    ```text                         what the block before it prints; … stands for anything
    ```text similar                 the same, but for numbers, and lines that depend on the machine's speed

`python -m guide_blocks FILE.ipynb FOLDER` runs a notebook's cells in a folder and stores what they print.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import tyro
from markdown_it import MarkdownIt

from port.cli import main
from port.judging import limits
from port.report.site.notebooks import fenced

WIDTH = "100"  # columns of what is printed
NUMBER = re.compile(r"(?<![\w.])-?\d[\d.]*(e[-+]?\d+)?(?!\w)")
OF_ITS_SPEED = re.compile(r"steps/s|  started$|the same at|compared at| at \w+ = ")
"""Lines on the progress of a run, and on how much was compared before a time limit."""


@dataclass(frozen=True)
class Block:
    """A fenced example.

    Attributes:
        language: the fence's first word.
        told: the words after it.
        content: the text within the fence.
        line: its line in the text.
    """

    language: str
    told: str
    content: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that it is written to."""
        found = re.search(r'title="([^"]*)"', self.told)
        return found and found[1]

    @property
    def exit_code(self) -> int:
        """How its last command ends."""
        found = re.search(r"exit=(\d+)", self.told)
        return int(found[1]) if found else 0

    @property
    def is_elsewhere(self) -> bool:
        """Whether it cannot be run here."""
        return "elsewhere" in self.told.split()

    @property
    def is_similar(self) -> bool:
        """Whether what is printed may have other numbers."""
        return "similar" in self.told.split()

    def commands(self) -> list[list[str]]:
        """The words of each command line; a backslash at a line's end goes on with it."""
        lines = self.content.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks(text: str) -> list[Block]:
    """The fenced examples of a text, in order."""
    found = []
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "fence":
            language, _, told = token.info.strip().partition(" ")
            found.append(Block(language, told, token.content, (token.map or [0])[0] + 1))
    return found


def parse(block: Block) -> None:
    """Read a block without running it.

    Raises:
        SyntaxError, tomllib.TOMLDecodeError, SystemExit, AssertionError: it cannot be what it says.
    """
    match block.language:
        case "python":
            ast.parse(block.content)
        case "toml":
            tomllib.loads(block.content)
        case "sh":
            for words in block.commands():
                parse_command(words)
        case other:
            assert other in ("text", "diff", "json"), f"line {block.line}: no such kind of block: {other!r}"


def parse_command(words: list[str]) -> None:
    """See that the command line of `port` knows each option of a `port …` line."""
    words = words[next((place for place, word in enumerate(words) if "=" not in word), 0) :]  # behind VARIABLE=…
    if words[0] != "port" or len(words) < 2 or words[1] in ("--help", "--version", "skill", "mcp"):
        return
    given = words[2:]
    if "--" in given:
        given = given[: given.index("--")]
    if words[1] == "script" and "-m" in given:  # what follows the module's name is the module's
        given = given[: given.index("-m") + 2]
    tyro.cli(import_module(f"port.cli.{words[1]}").Arguments, prog=f"port {words[1]}", args=given)


def run(text: str, folder: Path) -> None:
    """Run all blocks of a text, in order, in a folder. Takes a process of its own: pairs and operators are registered.

    Raises:
        AssertionError: a command ends otherwise than it should, or prints something else.
        Exception: what a Python block raises.
    """
    _enter(folder)
    names: dict[str, Any] = {"__name__": "guide"}
    printed = ""
    for block in blocks(text):
        if block.language == "text" and not block.is_elsewhere:
            compare_similar(block, printed) if block.is_similar else compare(block, printed)
        else:
            printed = _run(block, folder, names) or printed


def refresh(notebook: Path, folder: Path) -> None:
    """Run a notebook's cells, in order, in a folder, and store what they print in the notebook."""
    told = json.loads(notebook.read_text("utf-8"))
    _enter(folder)
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in told["cells"]:
        if cell["cell_type"] == "code":
            (block,) = blocks(fenced("".join(cell["source"])))
            lines = _run(block, folder, names, errors=io.StringIO()).splitlines()
            text = [f"{line.rstrip()}\n" for line in lines]
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
    notebook.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _enter(folder: Path) -> None:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    os.environ["COLUMNS"] = WIDTH
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def _run(block: Block, folder: Path, names: dict[str, Any], errors: io.StringIO | None = None) -> str:
    """Run a block, or write its file; return what it prints, with the commands' errors if they have no other place."""
    if block.file is not None:
        _write(block, folder / block.file)
        return f"Writing {block.file}\n"  # as a notebook says it
    if block.language == "python" and not block.is_elsewhere:
        return _python(block, names)
    if block.language == "sh" and not block.is_elsewhere:
        return _commands(block, folder, errors)
    return ""


def compare(block: Block, printed: str) -> None:
    """See that a ``text`` block is part of what was printed, however lines are broken."""
    pattern = ".*?".join(re.escape(_words(part)) for part in block.content.split("…"))
    assert re.search(pattern.replace(r"\ ", " "), _words(printed)), (
        f"line {block.line} expects\n{block.content}\nand what was printed is\n{printed[-4000:]}"
    )


def compare_similar(block: Block, printed: str) -> None:
    """See that each line of a ``text similar`` block was printed, with whatever numbers."""
    there = _words(NUMBER.sub("#", printed))
    for line in block.content.splitlines():
        assert OF_ITS_SPEED.search(line) or _words(NUMBER.sub("#", line)) in there, (
            f"line {block.line} has\n{line}\nand what was printed is\n{printed[-4000:]}"
        )


def _write(block: Block, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if "append" in block.told.split() else "w", encoding="utf-8") as file:
        file.write(block.content)


def _words(text: str) -> str:
    return " ".join(re.sub(r"[│─━╭╮╰╯┃┏┓┗┛┡┩┳┻╇]", " ", text).split())


def _python(block: Block, names: dict[str, Any]) -> str:
    said = io.StringIO()
    code = "\n" * block.line + block.content  # so that a traceback names the guide's line
    with contextlib.redirect_stdout(said):
        exec(compile(code, "guide", "exec"), names)
    return said.getvalue()


def _commands(block: Block, folder: Path, errors: io.StringIO | None) -> str:
    said = io.StringIO()
    errors = said if errors is None else errors
    code = 0
    for words in block.commands():
        assert code == 0, f"line {block.line}: exit code {code} before {words}:\n{said.getvalue()[-4000:]}"
        if words[0] == "port":
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
                try:
                    code = main(words[1:])
                except SystemExit as ended:
                    code = int(ended.code or 0)
        else:
            assert words[0] == "python", f"line {block.line}: neither port nor python: {words[0]}"
            done = subprocess.run(
                [sys.executable, *words[1:]], cwd=folder, capture_output=True, text=True, check=False, timeout=500
            )
            said.write(done.stdout)
            errors.write(done.stderr)
            code = done.returncode
    assert code == block.exit_code, f"line {block.line}: exit code {code}:\n{said.getvalue()[-4000:]}"
    return said.getvalue()


if __name__ == "__main__":
    file, folder = map(Path, sys.argv[1:])
    if file.suffix == ".ipynb":
        refresh(file.resolve(), folder)
    else:
        limits.SIZES_LIMIT = 3.0  # seconds of comparing at other sizes; what commands import takes it as its default
        run(file.read_text("utf-8"), folder)
