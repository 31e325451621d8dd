"""The control of one step: run the original again with its numbers perturbed in their last digits.

Some quantities are zero in exact arithmetic: the mean after a LayerNorm, the gradient of a bias before one. Their
computed values are pure rounding, and two correct sides have different ones. The original itself shows how large this
rounding is: it runs again with parameters, buffers, inputs and the result of every operator perturbed by a few units
in the last place. A difference of that size says nothing about the two sides.
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
    """The judgement of a tensor whose difference exceeds its limit.

    Attributes:
        is_rounding: the original differs from itself as much, and by no more than rounding can.
        why: why it cannot be judged; empty if it can.
    """

    is_rounding: bool = False
    why: str = ""


class Control:
    """How far the original strays from itself; computed on first use.

    Args:
        run: runs the original on numbers perturbed by a seed; returns its results by kind and name.
        reference: its results from the unperturbed numbers.
    """

    def __init__(self, run: Callable[[int], Kinds], reference: Kinds) -> None:
        self._run, self._reference = run, reference

    def judge(self, kind: str, name: str, ours: np.ndarray, limit: float) -> Judged:
        """Decide whether a tensor differs only by rounding.

        Args:
            kind: the tensor's kind.
            name: the tensor's name.
            ours: the other side's tensor, in the original's layout.
            limit: the limit that its relative difference exceeds.
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
        # A value is zero by cancellation only if all its uses see the same rounding errors. XLA recomputes a number in
        # each fusion that needs it.
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
        """The largest absolute difference of an original's tensor from itself; 0 if it is not finite."""
        strays = [
            gap(self._reference[kind][name], run[kind][name]) for run in self._runs[0] if name in run.get(kind, {})
        ]
        return max((stray for stray in strays if np.isfinite(stray)), default=0.0)

    def _went_into(self, kind: str) -> float:
        """The magnitude of a tensor's inputs: of the layers' outputs, or of all gradients."""
        if is_gradient(kind):
            return max(_largest(arrays) for name, arrays in self._reference.items() if is_gradient(name))
        return self._runs[1]

    @cached_property
    def _runs(self) -> tuple[list[Kinds], float]:
        """The original's results in each run, and the largest number among its layers' outputs."""
        runs = []
        with largest_output() as found:
            for seed in range(CONTROL_RUNS):
                try:
                    with random_rounding(seed, units=CONTROL_UNITS):
                        runs.append(self._run(seed))
                except Exception:  # the user's code may reject the perturbed numbers
                    continue
        return runs, max(found, default=0.0)


@contextmanager
def largest_output() -> Iterator[list[float]]:
    """Within this context, collect the largest magnitude of each layer output of any torch module."""
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
