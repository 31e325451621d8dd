"""Silence torch's log of what it could not trace: it is long, and about torch's internals."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO

_LOGGERS = ("torch", "torch.export", "torch.fx", "torch._dynamo", "torch._functorch", "torch._subclasses.fake_tensor")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's loggers and stderr within the context."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        with redirect_stderr(StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
