"""Judge tensors: by their limits, and beyond these by the original's control."""

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
        difference: the relative difference.
        limit: the largest allowed difference.
        is_rounding: whether it exceeds its limit only by rounding, as the original's control shows.
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
        control: the control of the original's run.
        limits: the largest allowed differences.
    """

    control: Control
    limits: Limits

    def tensor(self, kind: str, name: str, pair: Pair, *, most: float = 0.0) -> ComparedTensor:
        """Judge one tensor.

        Args:
            kind: the tensor's kind; kind and name are the control's.
            name: the tensor's name.
            pair: the original's tensor and the other side's.
            most: for gradients, the largest magnitude of any; a gradient that is tiny compared with it is divided by a
                fraction of it instead of its own magnitude.
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
        """Judge a gradient of a NaN output: if torch's is NaN for that reason, the other side's cannot be judged.

        XLA turns NaN · 0 into 0 if it sees that the factor comes from a comparison, and only under jit.
        """
        theirs, ours = pair
        lost = np.isnan(theirs)
        if np.isnan(ours[lost]).all():  # the NaN is on the other side only
            return ComparedTensor(name, NOT_A_NUMBER, self.limits.gradient)
        rest = self.tensor(kind, name, (theirs, np.where(lost, theirs, ours)), most=most)
        if rest.status is not Status.AGREE:
            return rest
        return ComparedTensor(name, rest.difference, rest.limit, unjudged=_BEHIND_NAN.format(name))

    def row(self, what: str, kind: str, pairs: Mapping[str, Pair], *, most: float = 0.0) -> Compared:
        """Judge all tensors of a kind in one row: the largest difference of those that can be judged.

        Args:
            what: the row's name.
            kind: the tensors' kind.
            pairs: the pairs of tensors, by name.
            most: as in `tensor`.
        """
        tensors = [self.tensor(kind, name, pair, most=most) for name, pair in pairs.items()]
        return row_of(what, tensors, self.limits.gradient if is_gradient(kind) else self.limits.forward)


def row_of(what: str, tensors: Sequence[ComparedTensor], limit: float) -> Compared:
    """Combine compared tensors of one kind into one row.

    Args:
        what: the row's name.
        tensors: the tensors of the kind.
        limit: the largest allowed difference of one.
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
