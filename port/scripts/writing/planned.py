"""Predict how many losses a script will compute: the product of the lengths of the enclosing loops."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FrameType
from typing import Any

from port.scripts.observing.statements import Loop, loops_of
from port.scripts.writing.taken_statements import called_name

AROUND = ("enumerate", "tqdm", "trange", "track")
"""Calls that iterate over their argument unchanged."""
PLAIN = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop),
    *(ast.Call, ast.Load, ast.Expression),
)


def planned(frames: Sequence[FrameType]) -> int | None:
    """The product of the lengths of the loops around the frames' lines; None if one is not known beforehand.

    Args:
        frames: frames of the script's code.
    """
    lengths = [_length(loop, frame) for frame in frames for loop in _loops(frame)]
    found = 1
    for length in lengths:
        if length is None:
            return None
        found *= length
    return found if lengths else None


def _loops(frame: FrameType) -> list[Loop]:
    """The loops in a frame's function around its current line."""
    line, first = frame.f_lineno, frame.f_code.co_firstlineno
    if frame.f_code.co_name == "<genexpr>":
        return []
    return [one for one in loops_of(frame.f_code.co_filename) if one.lineno >= first and _is_in_body(one, line)]


def _is_in_body(loop: Loop, line: int) -> bool:
    """Whether a line runs in each iteration."""
    begin = loop.lineno if isinstance(loop, ast.While) else loop.body[0].lineno
    return begin <= line <= (loop.body[-1].end_lineno or line)


def _length(loop: Loop, frame: FrameType) -> int | None:
    if not isinstance(loop, ast.For):
        return None  # a while loop ends when something has happened
    iterated = loop.iter
    while isinstance(iterated, ast.Call) and called_name(iterated) in AROUND and iterated.args:
        iterated = iterated.args[0]
    calls = [node for node in ast.walk(iterated) if isinstance(node, ast.Call)]
    is_plain = all(isinstance(node, PLAIN) for node in ast.walk(iterated))
    if not is_plain or any(called_name(call) not in ("range", "len", "int") for call in calls):
        return None  # the call might have side effects
    try:
        value: Any = eval(compile(ast.Expression(iterated), "<loop>", "eval"), frame.f_globals, dict(frame.f_locals))
        return len(value)
    except Exception:  # the names and lengths are the script's
        return None
