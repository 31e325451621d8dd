"""Numbers that ``forward`` draws from Python's or numpy's generator: a captured run would keep those that it drew."""

from __future__ import annotations

import random
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from port.errors import NoPair
from port.translation.frontend.source_locations import is_users


def states() -> tuple[Any, ...]:
    """Where both generators stand: it is another once a number is drawn."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return random.getstate(), name, tuple(keys), *rest


@contextmanager
def same_numbers_afterwards() -> Iterator[None]:
    """Within it, Python and numpy may draw numbers; the next ones are those that they would have been."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def see_that_torch_draws(run: Callable[[], list[Any]], name: str, same: Callable[[Any, Any], bool]) -> None:
    """See that what a module gives in training does not depend on Python's random numbers, or on numpy's.

    Args:
        run: runs a fresh copy of it, always from torch's same seed, and gives its tensors.
        name: the module's.
        same: whether two tensors are equal.

    Raises:
        NoPair: it does; names the line that draws.
    """
    with same_numbers_afterwards():
        first, *others = [_seeded(seed, run) for seed in range(3)]
        if all(len(each) == len(first) and all(map(same, first, each)) for each in others):
            return
        with _lines_that_draw() as lines:
            run()
    where = f"{lines[0]}: " if lines else ""
    raise NoPair(
        f"{where}in training {name} depends on numbers that Python or numpy draws. They are drawn once, when a JAX "
        "program is traced, and stay: draw them with torch.rand, and choose by them with torch.where"
    )


def _seeded(seed: int, run: Callable[[], list[Any]]) -> list[Any]:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    return run()


@contextmanager
def _lines_that_draw() -> Iterator[list[str]]:
    """Within it, the user's lines are noted during which a number was drawn."""
    found: list[str] = []
    last: list[tuple[str, Any]] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if not is_users(frame.f_code.co_filename) or _is_pythons(frame.f_code.co_filename):
            return None
        state = states()
        if last and event in ("line", "return") and last[-1][1] != state:
            found.append(last[-1][0])
        last[:] = [(f"{frame.f_code.co_filename}:{frame.f_lineno}", state)]
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield found
    finally:
        sys.settrace(before)


def _is_pythons(file: str) -> bool:
    return file.startswith(sysconfig.get_path("stdlib")) and "site-packages" not in file
