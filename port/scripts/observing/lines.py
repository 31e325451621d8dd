"""Locate events in the user's code: the frames that belong neither to torch, nor to Python, nor to port."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from port.scripts.observing.statements import loops_of, statement_line

OURS = str(Path(__file__).parents[1])
TORCH = str(Path(torch.__file__).parent)
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
MOST_FRAMES = 400
LONGEST_TEXT = 300

COMPOUND = ("for ", "async ", "with ", "while ", "if ")

_LOOPS: set[str] = set()
"""Packages that run the training loop for the script."""

Position = tuple[tuple[str, int, int], ...]


@cache
def owner(file: str) -> str:
    """Whose code a file is: "ours", "torch", "library" (Python's, or an installed package) or "user"."""
    if file.startswith(OURS):
        return "ours"
    if file.startswith(TORCH):
        return "torch"
    is_installed = "site-packages" in file or "dist-packages" in file or file.startswith(LIBRARIES)
    return "library" if is_installed or file.startswith("<") else "user"


def caller() -> FrameType | None:
    """The frame that called into torch or port: the innermost that is not port's and does not merely forward calls."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith("torch/overrides.py"):
            frame = frame.f_back  # the function itself, which asks there whether anybody looks at it
        elif owner(file) != "ours" and not file.endswith("torch/_tensor.py"):
            return frame
        frame = frame.f_back if frame is not None else None
    return None


def adopt_the_loop() -> None:
    """Report the lines of a package that runs the training loop (a Trainer) as if they were the script's.

    Such a package switches a model to training, clears gradients, calls backward or steps, in a loop or before one. A
    progress bar does none of this; a wrapper for backward only (``accelerator.backward(loss)``) has no loop.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and owner(frame.f_code.co_filename) != "user":
        package = _package(frame.f_code.co_filename)
        if package is not None and package not in _LOOPS and _has_a_loop(frame.f_code, frame.f_lineno):
            _LOOPS.add(package)
        frame = frame.f_back


@cache
def _has_a_loop(code: CodeType, line: int) -> bool:
    """Whether a line of a function is in a loop, or has one after it."""
    last = max((one for *_, one in code.co_lines() if one is not None), default=line)
    loops = [one for one in loops_of(code.co_filename) if code.co_firstlineno <= one.lineno <= last]
    return any(line <= (one.end_lineno or line) for one in loops)


def is_reported(file: str) -> bool:
    """Whether a file's lines are reported."""
    return owner(file) == "user" or (bool(_LOOPS) and _package(file) in _LOOPS)


@cache
def _package(file: str) -> str | None:
    """The installed package that a file belongs to."""
    _, installed, inside = file.partition("site-packages/")
    return inside.partition("/")[0] if installed and owner(file) == "library" else None


def is_called_by_us() -> bool:
    """Whether port itself calls a watched torch function, to describe what was seen."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith(("torch/overrides.py", "torch/_tensor.py")):
        frame = frame.f_back
    return frame is not None and owner(frame.f_code.co_filename) == "ours"


def user_frames() -> list[FrameType]:
    """The frames of the user's code, innermost first; those of an installed package if there are no others."""
    found: list[FrameType] = []
    libraries: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        whose = owner(frame.f_code.co_filename)
        if is_reported(frame.f_code.co_filename):
            found.append(frame)
        elif whose == "library" and not frame.f_code.co_filename.startswith("<"):
            libraries.append(frame)
        frame = frame.f_back
    return found or libraries[:1]


def line_of(frame: FrameType) -> dict[str, Any]:
    """One frame's line, as data: its file, line, function, and the text of what is executed there."""
    code = frame.f_code
    return {
        "file": code.co_filename,
        "line": frame.f_lineno,
        "function": code.co_qualname,
        "text": _text(code, frame.f_lasti, frame.f_lineno),
    }


def here() -> dict[str, Any] | None:
    """The user's line that is being executed."""
    frames = user_frames()
    return line_of(frames[0]) if frames else None


def position(frames: list[FrameType]) -> Position:
    """The program's position: a statement and an instruction for each of the user's frames, outermost first."""
    return tuple(
        (_code_name(frame.f_code), statement_line(frame.f_code.co_filename, frame.f_lineno), frame.f_lasti)
        for frame in frames[::-1]
    )


def _code_name(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_qualname}"


def went_back(update: Position, now: Position) -> bool:
    """Whether a loop has restarted since an update: the first difference from the update's position goes backward.

    Whatever follows the update, including a loop over the weights, is after it.
    """
    for (code, *at), (other_code, *other_at) in zip(update, now, strict=False):
        if code != other_code:
            return False
        if at != other_at:
            return other_at < at
    return False


def name_of(thing: object, frames: list[FrameType]) -> str | None:
    """The user's variable that holds an object: ``model``, ``self.net``; None if no frame has one."""
    for frame in frames:
        for name, value in frame.f_locals.items():
            if value is thing and _is_variable(name):
                return name
    for frame in frames:
        owned = frame.f_locals.get("self")
        for name, value in vars(owned).items() if hasattr(owned, "__dict__") else ():
            if value is thing:
                return f"self.{name}"
        for name, value in frame.f_globals.items():
            if value is thing and _is_variable(name):
                return name
    for frame in frames:
        for name, value in frame.f_locals.items():
            if isinstance(value, dict) and len(value) < 50:
                for key, held in value.items():
                    if held is thing and isinstance(key, str):
                        return f'{name}["{key}"]'
    return None


def _is_variable(name: str) -> bool:
    """Whether it names an object: ``_``, ``self`` and Python's internal names (``.0``) do not."""
    return name.isidentifier() and not name.startswith("_") and name not in ("self", "cls")


@cache
def _text(code: CodeType, instruction: int, line: int) -> str:
    """The source of the expression being executed, on one line; the whole line if that is not known."""
    begin, end, column, end_column = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    if begin is None or end is None or column is None:
        return linecache.getline(code.co_filename, line).strip()
    if linecache.getline(code.co_filename, begin).lstrip().startswith(COMPOUND) and end > begin:
        end, end_column = begin, None  # only its head
    rows = [linecache.getline(code.co_filename, number).encode() for number in range(begin, end + 1)]
    if not rows:
        return ""
    rows[-1] = rows[-1][:end_column]  # before the next line: they may be one
    rows[0] = rows[0][column:]
    text = " ".join(row.decode(errors="replace").strip() for row in rows).removesuffix(":")
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
