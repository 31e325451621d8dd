"""The control of one step: the original again, its numbers moved in their last places.

Some quantities are zero in exact arithmetic: the mean behind a LayerNorm, the gradient of a bias before one. What a
computer gives for them is rounding alone, and two right sides share none of it. How large that rounding is, the
original says itself: it runs once more from parameters, buffers and inputs that are moved by a few units in their last
places, as is the result of every operator. A difference of that size says nothing of the two sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from port.judging.limits import CONTROL_FACTOR, CONTROL_RUNS, CONTROL_UNITS, MASK, ROUNDING_UNITS
from port.parity.compare.distance import gap
from port.parity.sides.calls import Arrays
from port.parity.sides.random_rounding import random_rounding
from port.parity.sides.run import OUTPUTS, Kinds, is_gradient


@dataclass(frozen=True)
class Judged:
    """What becomes of a tensor whose difference is beyond its limit.

    Attributes:
        is_rounding: the original differs from itself as much, and by no more than rounding can.
        why: why it cannot be judged; empty where it can.
    """

    is_rounding: bool = False
    why: str = ""


class Control:
    """How far the original strays from itself; it runs when first asked.

    Args:
        run: the original from numbers that are moved by a seed; what it gives, by kind and by name.
        reference: what it gives from its own numbers.
    """

    def __init__(self, run: Callable[[int], Kinds], reference: Kinds) -> None:
        self._run, self._reference = run, reference

    def judge(self, kind: str, name: str, ours: np.ndarray, limit: float) -> Judged:
        """Whether a tensor differs by rounding alone.

        Args:
            kind: of the tensor.
            name: of the tensor.
            ours: the other side's, in the original's layout.
            limit: what its relative difference may be, and is not.
        """
        theirs = self._reference.get(kind, {}).get(name)
        apart = np.inf if theirs is None else gap(theirs, ours)
        if theirs is None or not np.isfinite(apart) or not np.issubdtype(theirs.dtype, np.inexact):
            return Judged()
        strayed, into = self.strayed(kind, name), self._went_into(kind)
        if apart <= max(CONTROL_FACTOR * strayed, ROUNDING_UNITS * np.finfo(theirs.dtype).eps * into):
            return (
                Judged(is_rounding=True)
                if strayed <= limit * into
                else Judged(why=_STRAYS.format(name, apart, strayed))
            )
        # What is zero because rounding errors cancel is zero only where every place that takes them has the same ones.
        # XLA computes a number anew in each fusion that needs it.
        if 0 < strayed >= np.abs(theirs).max(initial=0):
            others = max(
                self.strayed(kind, each)
                for each, array in self._reference[kind].items()
                if np.issubdtype(array.dtype, np.inexact)
            )
            if max(apart, limit * into) < others:
                return Judged(why=_CANCELS.format(name, apart, others))
        return Judged()

    @property
    def gives_nan(self) -> bool:
        """Whether an output of the original holds NaN."""
        outputs = self._reference.get(OUTPUTS, {}).values()
        return any(bool(np.isnan(array).any()) for array in outputs if np.issubdtype(array.dtype, np.inexact))

    def strayed(self, kind: str, name: str) -> float:
        """The largest absolute difference of a tensor of the original's from itself; 0 if it is not finite."""
        strays = [
            gap(self._reference[kind][name], run[kind][name]) for run in self._runs[0] if name in run.get(kind, {})
        ]
        return max((stray for stray in strays if np.isfinite(stray)), default=0.0)

    def _went_into(self, kind: str) -> float:
        """The magnitude of what went into a tensor: of the layers' outputs, or of all gradients."""
        if is_gradient(kind):
            return max(_largest(arrays) for name, arrays in self._reference.items() if is_gradient(name))
        return self._runs[1]

    @cached_property
    def _runs(self) -> tuple[list[Kinds], float]:
        """What the original gave in each run, and the largest number that its layers gave."""
        runs = []
        with largest_output() as found:
            for seed in range(CONTROL_RUNS):
                try:
                    with random_rounding(seed, units=CONTROL_UNITS):
                        runs.append(self._run(seed))
                except Exception:  # numbers that the user's code does not take
                    continue
        return runs, max(found, default=0.0)


@contextmanager
def largest_output() -> Iterator[list[float]]:
    """Within it, the largest magnitude of each output of each layer of any torch module is collected."""
    import torch
    from torch.nn.modules.module import register_module_forward_hook
    from torch.utils import _pytree as pytree

    found: list[float] = []

    def hook(layer: Any, args: Any, output: Any) -> None:
        for leaf in pytree.tree_leaves((args, output)):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel():
                size = float(leaf.detach().abs().max())
                if size <= MASK:
                    found.append(size)

    handle = register_module_forward_hook(hook)
    try:
        yield found
    finally:
        handle.remove()


_STRAYS = (
    "{} differs by {:.1e}, and the original strays by {:.1e} from itself when its numbers are moved in their last "
    "places; try other inputs, or fewer layers"
)
_CANCELS = (
    "{} differs by {:.1e}; the original's is zero because rounding errors cancel, and they are as large as {:.1e}; "
    "try other inputs, or fewer layers"
)


def _largest(arrays: Arrays) -> float:
    sizes = [float(np.abs(array[np.isfinite(array)]).max(initial=0.0)) for array in arrays.values()]
    return max((size for size in sizes if size <= MASK), default=0.0)
