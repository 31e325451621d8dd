"""Find the location in the user's source from which a node of an exported graph comes."""

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
"""A file of ours that is treated as the original's code: its computations are written with its own names."""
_INSTRUMENTS = (
    *("instrument.py", "called_functions.py", "called_methods.py", "custom_ops.py"),
    "autograd_functions.py",
    *("branch_selection.py", "argument_origins.py"),
)
"""Files of ours whose frames lie between frames of the user's code."""


def place_of(node: Any) -> SourceLocation | None:
    """Return a node's innermost location in the user's code, with its callers; None where there is none."""
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
def full_stack_traces() -> Iterator[None]:
    """Keep all of the user's frames in traced nodes, within the context; by default torch.fx keeps only ``forward``.

    The frames also record whether gradients were off, which an exported graph does not.

    The patched method is private to torch.fx; without it, locations are those in ``forward``.
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
    """Whether a file is the user's: neither torch's nor ours, except the one that is treated as the original's."""
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
    """Find where a class, or one of its base classes, assigns ``self.name = …``; None if nowhere."""
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
