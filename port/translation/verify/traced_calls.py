"""Force a new trace for every call of a checkpointed class, so that each call draws its own supplied numbers."""

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
    """Context manager: trace every call of a written module's checkpointed classes separately.

    `nnx.remat` traces a call once for all modules of equal structure. The numbers of `jax_draws`, which are constants
    of the trace and not arguments as a key is, would then be the same in all of them.
    """
    numbers = count()

    def numbered(call: Any) -> Any:
        @wraps(call)
        def numbered_call(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.number_of_call = next(numbers)  # not an array, so a part of the structure: no two are equal
            return call(self, *args, **kwargs)

        return numbered_call

    with ExitStack() as patched:
        for cls in (getattr(code, name) for name in checkpointed):
            patched.enter_context(patch.object(cls, "__call__", numbered(cls.__call__)))
        yield
