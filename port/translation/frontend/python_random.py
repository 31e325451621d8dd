"""Numbers that ``forward`` draws from Python's or numpy's generator: a captured run would keep those that it drew."""

from __future__ import annotations

import random
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from io import StringIO
from itertools import count
from typing import Any

import numpy as np

from port.errors import NoPair
from port.parity.sides.reachable import reached
from port.translation.frontend.source_locations import is_users

_RARE, _DRAWS = 0.01, 3
"""Of the first three draws, numbers that are seen once in a hundred times are tried."""


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


@contextmanager
def again(seed: int) -> Iterator[None]:
    """For running the user's code once more: in silence, every generator at a seed, and afterwards as it was."""
    import torch

    with same_numbers_afterwards(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - it is the user's code that draws from it
        random.seed(seed)
        with redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


def generators_of(module: Any) -> list[Any]:
    """The generators of Python's and of numpy's that a module reaches."""
    kinds = (random.Random, np.random.RandomState, np.random.Generator)
    return [thing for _, thing in reached(module) if isinstance(thing, kinds)]


def check_random_source(
    fresh: Callable[[], Any], run: Callable[[Any], list[Any]], same: Callable[[Any, Any], bool]
) -> None:
    """See that what a module gives does not depend on Python's random numbers, or on numpy's.

    Args:
        fresh: gives a copy of it.
        run: runs a copy, always from torch's same seed, and gives its tensors.
        same: whether two tensors are equal.

    Raises:
        NoPair: it does; names the line that draws.
    """
    with same_numbers_afterwards():
        first, *others = [run(_seeded(fresh(), *seeds)) for seeds in _telling_seeds()]
        if all(len(each) == len(first) and all(map(same, first, each)) for each in others):
            return
        with _lines_that_draw() as lines:
            run(fresh())
    where = f"{lines[0]}: " if lines else ""
    raise NoPair(
        f"{where}{type(fresh()).__qualname__} depends on numbers that Python or numpy draws. They are drawn once, when "
        "a JAX program is traced, and stay: draw them with torch.rand, and choose by them with torch.where"
    )


def _seeded(module: Any, pythons: int, numpys: int) -> Any:
    """A module, when both global generators, and its own, begin with these seeds."""
    random.seed(pythons)
    np.random.seed(numpys)  # noqa: NPY002
    for generator in generators_of(module):
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = type(generator.bit_generator)(numpys).state  # type: ignore[call-arg]
        else:
            generator.seed(pythons if isinstance(generator, random.Random) else numpys)
    return module


@cache
def _telling_seeds() -> tuple[tuple[int, int], ...]:
    """Seeds of Python's generator and of numpy's: some, and those whose first draws are next to 0, and next to 1.

    What is skipped once in a hundred times is skipped with one of them, and done with another.
    """
    found = [(seed, seed) for seed in range(4)]
    for place in range(_DRAWS):
        for is_extreme in (lambda number: number < _RARE, lambda number: number > 1 - _RARE):
            generators = (random.Random, np.random.RandomState)  # the global ones are of these kinds
            found.append(tuple(_first_seed(kind, place, is_extreme) for kind in generators))  # type: ignore[arg-type]
    return tuple(found)


def _first_seed(kind: Any, place: int, is_extreme: Callable[[float], bool]) -> int:
    """The first seed with which a generator's draw at a place is extreme."""
    return next(
        seed for seed in count() if is_extreme([made.random() for made in [kind(seed)] for _ in range(place + 1)][-1])
    )


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
