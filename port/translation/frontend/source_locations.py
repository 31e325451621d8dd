"""Where in the user's source a node of an exported graph comes from."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from port.translation.ir.source_location import SourceLocation

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_WITHOUT_GRADIENT = "<no_grad>"
_OURS = str(Path(__file__).parents[1])
_READ = str(Path(_OURS, "hub", "experts.py"))
"""Of ours, and yet read as the original's code: what it computes is written with its own names."""
_INSTRUMENTS = (
    *("instrument.py", "called_functions.py", "called_methods.py", "custom_ops.py"),
    "autograd_functions.py",
    *("branch_selection.py", "argument_origins.py"),
)
"""Files of ours through which the user's code runs: what is behind them is the user's."""


def place_of(node: Any) -> SourceLocation | None:
    """The innermost line that is the user's own: neither torch's nor ours, nor what called us; with those around it."""
    lines: list[SourceLocation] = []
    for file, line, function in reversed(_FRAME.findall(node.meta.get("stack_trace") or "")):
        if file.startswith(_OURS) and file != _READ and Path(file).name not in _INSTRUMENTS:
            break
        if is_users(file):
            lines.append(SourceLocation(file, int(line)))
            if function == "forward":
                break
    return SourceLocation(lines[0].file, lines[0].line, tuple(lines[1:])) if lines else None


def is_without_gradient(node: Any) -> bool:
    """Whether a node was traced within ``torch.no_grad()``."""
    return f'File "{_WITHOUT_GRADIENT}"' in (node.meta.get("stack_trace") or "")


@contextmanager
def whole_stacks() -> Iterator[None]:
    """Within it, traced nodes keep the user's frames of every function; by itself torch.fx keeps ``forward`` alone.

    They also keep whether gradients were off, which an exported graph does not say.

    What torch.fx calls here is private to it; where it is not there, places are those of ``forward``.
    """
    import torch
    from torch.fx.proxy import TracerBase

    before = getattr(TracerBase, "_filter_traceback_frames", None)

    def kept(self: Any, frames: traceback.StackSummary) -> traceback.StackSummary:
        users = [frame for frame in frames if not _is_torchs(frame.filename)][-12:]
        if not torch.is_grad_enabled():
            users.append(traceback.FrameSummary(_WITHOUT_GRADIENT, 1, "no_grad", lookup_line=False, line=""))
        return traceback.StackSummary.from_list(users)

    if before is not None:
        TracerBase._filter_traceback_frames = kept  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        if before is not None:
            TracerBase._filter_traceback_frames = before  # type: ignore[method-assign, assignment]


def is_users(file: str) -> bool:
    """Whether a file is neither torch's nor ours, but what of ours is read as the original's."""
    return not _is_torchs(file) and (not file.startswith(_OURS) or file == _READ)


@cache
def _is_torchs(file: str) -> bool:
    parts = Path(file).parts
    return (
        file.startswith("<")
        or parts[0] == "torch"
        or any(parts[i : i + 2] == ("site-packages", "torch") for i in range(len(parts)))
    )


def assigned_at(cls: type, name: str) -> SourceLocation | None:
    """Where a class, or one that it derives from, says ``self.name = …``."""
    for base in cls.__mro__:
        try:
            lines, first = inspect.getsourcelines(base)
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError, IndexError):
            continue
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(target, ast.Attribute) and target.attr == name for target in targets):
                return SourceLocation(inspect.getsourcefile(base) or "", first + node.lineno - 1)  # type: ignore[attr-defined]
    return None
