"""The one judge of tensors: by their limits, and by the original's control what is beyond them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from port.judging import Compared, Limits, Status
from port.parity.compare.control import Control
from port.parity.compare.distance import NOT_A_NUMBER, difference, gap
from port.parity.sides.run import is_gradient

Pair = tuple[np.ndarray, np.ndarray]
"""The original's array and the other side's, in one layout."""


@dataclass(frozen=True)
class ComparedTensor:
    """One tensor of both sides.

    Attributes:
        name: its name.
        difference: relative.
        limit: what it may be.
        is_rounding: it is beyond its limit by rounding alone, as the original's own control shows.
        unjudged: why it cannot be judged; empty if it can.
    """

    name: str
    difference: float
    limit: float
    is_rounding: bool = False
    unjudged: str = ""

    @property
    def status(self) -> Status:
        """Agree, differ, or cannot be judged."""
        if self.unjudged:
            return Status.CANNOT_JUDGE
        return Status.AGREE if self.is_rounding or self.difference <= self.limit else Status.DIFFER


@dataclass(frozen=True)
class Judge:
    """Compares tensors of one run of each side.

    Attributes:
        control: of the original's run.
        limits: how far apart two arrays may be.
    """

    control: Control
    limits: Limits

    def tensor(self, kind: str, name: str, pair: Pair, *, most: float = 0.0) -> ComparedTensor:
        """One tensor.

        Args:
            kind: of the tensor; that and its name are as the control has them.
            name: of the tensor.
            pair: the original's and the other side's.
            most: of a gradient, the largest magnitude of any; one that is next to nothing beside it is set in relation
                to a share of it.
        """
        limit = self.limits.gradient if is_gradient(kind) else self.limits.forward
        apart = difference(*pair, scale=self.limits.share * most)
        if apart <= limit or gap(*pair) <= self.limits.absolute:
            return ComparedTensor(name, min(apart, limit), limit)
        if apart is NOT_A_NUMBER and is_gradient(kind) and self.control.gives_nan:
            return self._behind_nan(kind, name, pair, most)
        judged = self.control.judge(kind, name, pair[1], limit)
        return ComparedTensor(name, apart, limit, judged.is_rounding, judged.why)

    def _behind_nan(self, kind: str, name: str, pair: Pair, most: float) -> ComparedTensor:
        """A gradient behind an output that is NaN: where torch's is NaN for that, it says nothing of the other side's.

        XLA makes 0 of NaN · 0 where it sees that the factor came from a comparison, and with jit alone.
        """
        theirs, ours = pair
        lost = np.isnan(theirs)
        if np.isnan(ours[lost]).all():  # it is the other side's NaN that has nothing beside it
            return ComparedTensor(name, NOT_A_NUMBER, self.limits.gradient)
        rest = self.tensor(kind, name, (theirs, np.where(lost, theirs, ours)), most=most)
        if rest.status is not Status.AGREE:
            return rest
        return ComparedTensor(name, rest.difference, rest.limit, unjudged=_BEHIND_NAN.format(name))

    def row(self, what: str, kind: str, pairs: Mapping[str, Pair], *, most: float = 0.0) -> Compared:
        """All tensors of a kind in one row: the largest difference of those that can be judged.

        Args:
            what: the row's name.
            kind: of the tensors.
            pairs: by name.
            most: as of `tensor`.
        """
        tensors = [self.tensor(kind, name, pair, most=most) for name, pair in pairs.items()]
        return row_of(what, tensors, self.limits.gradient if is_gradient(kind) else self.limits.forward)


def row_of(what: str, tensors: Sequence[ComparedTensor], limit: float) -> Compared:
    """Compared tensors of one kind in one row.

    Args:
        what: the row's name.
        tensors: of the kind.
        limit: what the difference of one may be.
    """
    judged = [tensor for tensor in tensors if not tensor.is_rounding and not tensor.unjudged]
    worst = max(judged, key=lambda tensor: tensor.difference, default=None)
    return Compared(
        what,
        float(worst.difference) if worst is not None else 0.0,
        limit,
        worst.name if worst is not None and worst.difference > 0 else "",
        len(tensors),
        sum(tensor.is_rounding for tensor in tensors),
        next((tensor.unjudged for tensor in tensors if tensor.unjudged), ""),
    )


_BEHIND_NAN = (
    "the original's outputs hold NaN, and so does its gradient of {}: what flows back through NaN is 0 or NaN as the "
    "compiler has it; try inputs for which the outputs are numbers"
)
