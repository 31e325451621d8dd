"""torch's own log of what it could not trace is long, and speaks of torch's insides."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO

_LOGGERS = ("torch", "torch.export", "torch.fx", "torch._dynamo", "torch._functorch", "torch._subclasses.fake_tensor")


@contextmanager
def quiet() -> Iterator[None]:
    """Within it, torch logs and prints nothing of what it cannot trace."""
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
