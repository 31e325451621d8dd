"""Notebooks as the guides' Markdown: files, commands, Python, and what cells printed."""

from __future__ import annotations

import json
from typing import Any

from guide_blocks import blocks
from port.report.site.notebooks import markdown_of


def cell(kind: str, source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "outputs": list(outputs)}


def test_each_kind_of_cell() -> None:
    printed = {"output_type": "stream", "text": ["1.5\n", "2\n"]}
    cells = [
        cell("markdown", "# A title\n\nWords."),
        cell("code", "%%writefile a/b.py\nx = 1\ny = 2"),
        cell("code", "!port --version\n!python a/b.py"),
        cell("code", "print(1.5)\nprint(2)", printed),
    ]
    text = markdown_of(json.dumps({"cells": cells}))
    assert text.startswith("# A title\n\nWords.\n\n")
    file, commands, python, output = blocks(text)
    assert (file.file, file.content) == ("a/b.py", "x = 1\ny = 2\n")
    assert commands.commands() == [["port", "--version"], ["python", "a/b.py"]]
    assert (python.language, python.content) == ("python", "print(1.5)\nprint(2)\n")
    assert (output.language, output.is_similar, output.content) == ("text", True, "1.5\n2\n")


def test_a_cell_that_prints_nothing_has_nothing_below_it() -> None:
    assert len(blocks(markdown_of(json.dumps({"cells": [cell("code", "x = 1")]})))) == 1
