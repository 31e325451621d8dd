"""`port skill`: the guide that tells an assistant how to port a project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from port.cli.empty import refuse_empty
from port.cli.parsing import parsed
from port.weights.whole import whole


@dataclass(frozen=True)
class Arguments:
    """Print the guide for assistants: how to move a project to JAX with these commands, and prove it.

    It is Markdown, with a name and a description at its top, as assistants read it from a folder.
    """

    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """write it to a file, with the folders that lead there"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    refuse_empty("skill", arguments)
    options = parsed(Arguments, "skill", arguments)
    if options.out is None:
        print(skill(), end="")
        return 0
    with whole(options.out, overwrite=False, may_replace=lambda folder: False, what="the guide") as partial:
        partial.write_text(skill(), "utf-8")
    return 0


def skill() -> str:
    """The guide's text, Markdown with a front matter of name and description."""
    return (files("port.cli") / "SKILL.md").read_text("utf-8")
