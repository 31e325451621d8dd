"""Hooks on every module's call, as observers register them, taken away for a while."""

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
    """Within it, modules are called without the hooks that somebody has registered for all modules.

    They are no part of a module, so none of a capture. With any of them torch puts a frame of its own between a call
    and its ``forward``, behind which nobody sees where the call's numbers come from.
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
