"""The one judge of tensors: by their limits, and by the original's control what is beyond them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from port.judging import Limits, Status
from port.judging.compared import Compared
from port.parity.compare.control import Control
from port.parity.compare.distance import difference, gap
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
        judged = self.control.judge(kind, name, pair[1], limit)
        return ComparedTensor(name, apart, limit, judged.is_rounding, judged.why)

    def row(self, what: str, kind: str, pairs: Mapping[str, Pair], *, most: float = 0.0) -> Compared:
        """All tensors of a kind in one row: the largest difference of those that can be judged.

        Args:
            what: the row's name.
            kind: of the tensors.
            pairs: by name.
            most: as of `tensor`.
        """
        tensors = [self.tensor(kind, name, pair, most=most) for name, pair in pairs.items()]
        judged = [tensor for tensor in tensors if not tensor.is_rounding and not tensor.unjudged]
        worst = max(judged, key=lambda tensor: tensor.difference, default=None)
        limit = self.limits.gradient if is_gradient(kind) else self.limits.forward
        return Compared(
            what,
            float(worst.difference) if worst is not None else 0.0,
            limit,
            worst.name if worst is not None and worst.difference > 0 else "",
            len(tensors),
            sum(tensor.is_rounding for tensor in tensors),
            next((tensor.unjudged for tensor in tensors if tensor.unjudged), ""),
        )
