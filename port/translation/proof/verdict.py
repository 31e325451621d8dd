"""What a comparison says, and how far apart two sides may be that are the same."""

from __future__ import annotations

from dataclasses import dataclass

FORWARD, GRADIENT, FLOOR = 1e-9, 1e-7, 1e-6
"""Limits in float64, relative: of outputs and buffers; of gradients, to the larger of their own size and this share of
the largest gradient's."""


@dataclass(frozen=True)
class Limits:
    """How far apart the two sides may be, relative.

    Attributes:
        forward: outputs and buffers.
        gradient: gradients.
        why: why they are wider than float64's; empty if they are not.
    """

    forward: float = FORWARD
    gradient: float = GRADIENT
    why: str = ""


SINGLE = Limits(
    1e-4, 1e-3, "the original does not run in float64: both sides ran in float32, and the limits are float32's"
)
MIXED = Limits(
    1e-6,
    1e-4,
    "the original's own code computes a part in float32 or less, whatever its precision: the limits are as wide as "
    "what that leaves of float64",
)


def limits_of(single: bool, mixed: bool) -> Limits:
    """The limits of a comparison.

    Args:
        single: whether both sides run in float32.
        mixed: whether the original computes a part in float32, whatever its precision.
    """
    return SINGLE if single else MIXED if mixed else Limits()


@dataclass(frozen=True)
class Compared:
    """One kind of thing that was compared.

    Attributes:
        what: of which.
        difference: the largest, relative.
        limit: what it may be.
        where: the tensor with that difference.
        count: how many tensors were compared.
    """

    what: str
    difference: float
    limit: float
    where: str
    count: int

    @property
    def agrees(self) -> bool:
        return self.difference <= self.limit

    def __str__(self) -> str:
        sign = "≤" if self.agrees else ">"
        where = "" if self.agrees or not self.where else f" at {self.where}"
        return f"{self.what}: {self.difference:.1e} {sign} {self.limit:.0e} ({self.count} tensors){where}"


@dataclass(frozen=True)
class Proof:
    """What the comparison says.

    Attributes:
        rows: what was compared.
        precision: ``"float64"``; ``"float32"`` where the original does not run in float64.
        failed: the error of the Flax side, if it could not be run.
        remarks: what was not compared, or less closely, and why: a sentence each.
        lengths: the inputs' lengths at which both sides were compared, in words.
    """

    rows: tuple[Compared, ...]
    precision: str = "float64"
    failed: str = ""
    remarks: tuple[str, ...] = ()
    lengths: str = ""

    @property
    def agrees(self) -> bool:
        """Whether something was compared, and all of it is within its limit."""
        return not self.failed and bool(self.rows) and all(row.agrees for row in self.rows)

    def __str__(self) -> str:
        head = f"{self.precision}: both sides {'agree' if self.agrees else 'DIFFER'}"
        at = f"compared at {self.lengths}" if self.lengths else ""
        return "\n  ".join(filter(None, [head, self.failed, *map(str, self.rows), *self.remarks, at]))
