"""Read a command's options, and say as JSON, where that is asked for, what is wrong with them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import IO, Any, TypeVar, cast

import tyro

Options = TypeVar("Options")

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_BORDER = " │|"
_RULE = "─-"


class _Heard:
    """A stream that keeps what is written to it, and hands it on."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.text = stream, ""

    def write(self, text: str) -> int:
        self.text += text
        return int(self.stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def parsed(options: type[Options], command: str, arguments: Sequence[str]) -> Options:
    """Return a command's options.

    Args:
        options: the dataclass that lists them.
        command: its name, such as ``convert``.
        arguments: as they were passed.

    Raises:
        SystemExit: they are invalid, or ``--help`` was passed. What is wrong is on standard error then, and with
            ``--json`` on standard output too, as any other error.
    """
    heard = _Heard(sys.stderr)
    try:
        with redirect_stderr(cast(IO[str], heard)):
            return tyro.cli(options, prog=f"port {command}", args=arguments)
    except SystemExit as end:
        if end.code not in (0, None) and "--json" in arguments:
            from port.report.results import printed, result_of_error  # not above: only errors need it

            print(printed(result_of_error(command, sentence_of(heard.text), int(end.code))))
        raise


def sentence_of(box: str) -> str:
    """Return the words of an error in a box, without its title, its frame and what it says about help.

    Args:
        box: as tyro prints it: with a frame, or, where a stream takes only ASCII, with dashes beneath its title.
    """
    parts: list[list[str]] = [[]]
    for line in (line.strip(_BORDER) for line in _STYLE.sub("", box).splitlines()):
        if line.strip(_RULE):
            parts[-1].append(line)
        elif line:
            parts.append([])
    has_frame = "╭" in box
    said = parts[0][1:] if has_frame else parts[min(1, len(parts) - 1)]
    return " ".join(" ".join(said).split()) or "invalid options"
