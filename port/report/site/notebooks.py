"""Notebooks as Markdown, with the guides' code fences, so that they are shown, searched and tested like guides."""

from __future__ import annotations

import json
import re
from typing import Any

FILE = re.compile(r"%%writefile (\S+)\n")
"""A cell that is written to a file."""


def markdown_of(notebook: str) -> str:
    """Return a notebook's cells as Markdown, in order.

    ``%%writefile`` becomes a fence with a title; lines that start with ``!`` become a shell fence. A cell's output
    follows it, marked as similar to what is printed, because numbers differ between machines.
    """
    return "\n\n".join(part for cell in json.loads(notebook)["cells"] for part in _parts(cell)) + "\n"


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return [source]
    printed = "".join("".join(output.get("text", ())) for output in cell["outputs"]).rstrip()
    return [fenced(source), *([f"```text similar\n{printed}\n```"] if printed else [])]


def fenced(source: str) -> str:
    """Return a code cell as a fence."""
    if written := FILE.match(source):
        return f'```python title="{written[1]}"\n{source[written.end() :]}\n```'
    if source.startswith("!"):
        return "```sh\n" + "\n".join(line.removeprefix("!") for line in source.splitlines()) + "\n```"
    return f"```python\n{source}\n```"
