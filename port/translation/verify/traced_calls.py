"""Every call of a checkpointed class is traced anew, while numbers are drawn that are no arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import count
from types import ModuleType
from typing import Any
from unittest.mock import patch


@contextmanager
def each_call_traced(code: ModuleType, checkpointed: Iterable[str]) -> Iterator[None]:
    """Within it, JAX traces every call of a written module's checkpointed classes anew.

    A call under `nnx.remat` is traced once for all modules that are alike, and what was drawn while it was traced would
    stand in all of them: a key is an argument, and the numbers of `jax_draws` are none.
    """
    numbers = count()

    def numbered(call: Any) -> Any:
        @wraps(call)
        def numbered_call(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.number_of_call = next(numbers)  # told apart by it: it is no array, and so a part of the structure
            return call(self, *args, **kwargs)

        return numbered_call

    with ExitStack() as patched:
        for cls in (getattr(code, name) for name in checkpointed):
            patched.enter_context(patch.object(cls, "__call__", numbered(cls.__call__)))
        yield
