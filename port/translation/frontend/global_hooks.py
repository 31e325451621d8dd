"""Temporarily remove hooks that are registered for all modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn.modules import module as modules

_TABLES: tuple[dict[int, Any], ...] = (
    modules._global_forward_pre_hooks,
    modules._global_forward_hooks,
    modules._global_forward_hooks_always_called,
    modules._global_forward_hooks_with_kwargs,
    modules._global_backward_pre_hooks,
    modules._global_backward_hooks,
)
"""Private, and the only place where torch keeps them. Handles refer to these very tables."""


@contextmanager
def without_global_hooks() -> Iterator[None]:
    """Call modules without global hooks, within the context.

    Global hooks are not part of a module, so they do not belong in a capture. They also make torch insert a stack frame
    between a call and its ``forward``, which would hide the origins of the call's arguments.
    """
    before = [dict(table) for table in _TABLES]
    for table in _TABLES:
        table.clear()
    try:
        yield
    finally:
        for table, hooks in zip(_TABLES, before, strict=True):
            registered_since = dict(table)
            table.clear()
            table.update(hooks | registered_since)
