"""Detect random numbers from Python's or numpy's generators in ``forward``; a capture would freeze the drawn values."""

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
"""Seeds are tried that make each of the first three draws extreme, with a probability of one in a hundred."""


def states() -> tuple[Any, ...]:
    """Return the states of both global generators; a draw changes them."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return random.getstate(), name, tuple(keys), *rest


@contextmanager
def same_numbers_afterwards() -> Iterator[None]:
    """Restore the states of Python's and numpy's global generators on leaving the context."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


@contextmanager
def reseeded(seed: int) -> Iterator[None]:
    """Rerun the user's code within the context: silently, with every generator seeded and restored afterwards."""
    import torch

    with same_numbers_afterwards(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - it is the user's code that draws from it
        random.seed(seed)
        with redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


def generators_of(module: Any) -> list[Any]:
    """Return the Python and numpy generators that a module reaches."""
    kinds = (random.Random, np.random.RandomState, np.random.Generator)
    return [thing for _, thing in reached(module) if isinstance(thing, kinds)]


def check_random_source(
    fresh: Callable[[], Any], run: Callable[[Any], list[Any]], same: Callable[[Any, Any], bool]
) -> None:
    """Check that a module's results do not depend on Python's or numpy's random numbers.

    Args:
        fresh: returns a new copy of the module.
        run: runs a copy, always from the same torch seed, and returns its tensors.
        same: whether two tensors are equal.

    Raises:
        NoPair: the results depend on them; names the line that draws.
    """
    with same_numbers_afterwards():
        first, *others = [run(_seeded(fresh(), *seeds)) for seeds in _revealing_seeds()]
        if all(len(each) == len(first) and all(map(same, first, each)) for each in others):
            return
        with _lines_that_draw() as lines:
            run(fresh())
    where = f"{lines[0]}: " if lines else ""
    raise NoPair(
        f"{where}{type(fresh()).__qualname__} depends on numbers that Python or numpy draws. A JAX program draws them "
        "once, while it is traced: draw them with torch.rand, and select with torch.where"
    )


def _seeded(module: Any, pythons: int, numpys: int) -> Any:
    """Seed the global generators and the module's own, and return the module."""
    random.seed(pythons)
    np.random.seed(numpys)  # noqa: NPY002
    for generator in generators_of(module):
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = type(generator.bit_generator)(numpys).state  # type: ignore[call-arg]
        else:
            generator.seed(pythons if isinstance(generator, random.Random) else numpys)
    return module


@cache
def _revealing_seeds() -> tuple[tuple[int, int], ...]:
    """Return pairs of seeds, for Python and numpy: four plain ones, and ones whose early draws are near 0 or near 1.

    A step that is skipped once in a hundred times is skipped under one of them, and taken under another.
    """
    found = [(seed, seed) for seed in range(4)]
    for place in range(_DRAWS):
        for is_extreme in (lambda number: number < _RARE, lambda number: number > 1 - _RARE):
            generators = (random.Random, np.random.RandomState)  # the global ones are of these kinds
            found.append(tuple(_first_seed(kind, place, is_extreme) for kind in generators))  # type: ignore[arg-type]
    return tuple(found)


def _first_seed(kind: Any, place: int, is_extreme: Callable[[float], bool]) -> int:
    """Return the first seed for which a generator's draw number ``place`` is extreme."""
    return next(
        seed for seed in count() if is_extreme([made.random() for made in [kind(seed)] for _ in range(place + 1)][-1])
    )


@contextmanager
def _lines_that_draw() -> Iterator[list[str]]:
    """Collect the user's lines that draw a number, within the context."""
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
