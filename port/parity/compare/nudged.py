"""A Flax side's control: the same side again, its numbers moved in their last places."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from port.judging.limits import CONTROL_FACTOR, CONTROL_RUNS, CONTROL_UNITS
from port.parity.compare.distance import gap
from port.parity.sides.calls import Arrays, is_floating
from port.parity.sides.flax_side import FlaxSide
from port.parity.sides.inputs import Inputs
from port.parity.sides.structure import rebuilt


class Nudged:
    """How far a side strays from itself; it runs when first asked.

    Args:
        side: from whose variables, moved, it runs again.
        inputs: from which it does, moved too.
        run: what is compared of it: the arrays of one kind, by name.
    """

    def __init__(self, side: FlaxSide, inputs: Inputs, run: Callable[[FlaxSide, Inputs], Arrays]) -> None:
        self._side, self._inputs, self._run = side, inputs, run

    def strays_as_far(self, name: str, apart: float) -> bool:
        """Whether a difference says nothing.

        Args:
            name: of the array.
            apart: the largest absolute difference of the other side's.
        """
        reference, *again = self._runs
        strayed = max((gap(reference[name], other[name]) for other in again), default=0.0)
        return bool(np.isfinite(apart) and np.isfinite(strayed) and apart <= CONTROL_FACTOR * strayed)

    @cached_property
    def _runs(self) -> list[Arrays]:
        return [self._run(self._side, self._inputs), *(self._run(*self._moved(seed)) for seed in range(CONTROL_RUNS))]

    def _moved(self, seed: int) -> tuple[FlaxSide, Inputs]:
        random = np.random.default_rng(seed)
        side = copy.copy(self._side)
        side.variables = {path: jnp.asarray(_moved(value, random)) for path, value in self._side.variables.items()}
        *args, kwargs = rebuilt(self._inputs.tree, lambda name, leaf: _moved(leaf, random))
        return side, Inputs(tuple(args), kwargs)


def _moved(value: Any, random: np.random.Generator) -> np.ndarray:
    array = np.asarray(value)
    if not is_floating(array):
        return array
    units = random.integers(-CONTROL_UNITS, CONTROL_UNITS, array.shape, endpoint=True)
    return np.asarray(array * (1 + units * np.finfo(array.dtype).eps), array.dtype)
