"""Write calls and their arguments as source: names, attributes, parts, and default options."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from port.scripts.observing.graph import Computation
from port.scripts.observing.statements import statement_text


def target_of(call: Computation) -> str | None:
    """The variable to which the script's statement assigns the call's result, if it does nothing else."""
    if call.where is None:
        return None
    try:
        (statement,) = ast.parse(statement_text(call.where["file"], call.where["line"])).body
    except (SyntaxError, ValueError):
        return None
    match statement:
        case ast.Assign(targets=[ast.Name(name)], value=value) if ast.unparse(value) == _spaced(call.where["text"]):
            return name
    return None


@cache
def defaults_of(name: str) -> dict[str, str]:
    """A function's default options, as source."""
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    try:
        parameters = inspect.signature(found).parameters
    except (TypeError, ValueError):
        return {}
    return {key: repr(one.default) for key, one in parameters.items() if one.default is not one.empty}


def _spaced(text: str) -> str:
    try:
        return ast.unparse(ast.parse(text, mode="eval"))
    except SyntaxError:
        return text


def attribute(parts: Sequence[str]) -> str:
    """``self.net[0].weight`` for a path with numbers in it."""
    written = parts[0]
    for part in parts[1:]:
        written += f"[{part}]" if part.isdigit() else f".{part}"
    return written


def part_of(name: str, path: str | None) -> str:
    """A part of a call's result: ``output[0]``, ``output["loss"]``."""
    for part in path.split(".") if path else ():
        name += f"[{part}]" if part.isdigit() else f"[{part!r}]"
    return name


def said_number(value: int | float) -> str:
    """A Python or numpy number as source; numbers without a literal by name."""
    if isinstance(value, int):
        return str(int(value))
    return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'


def index_of(said: str, value: Any) -> str:
    """The index in ``x[:, 0]``; a tuple without its parentheses."""
    return said[1:-1] if isinstance(value, tuple) and value else said
