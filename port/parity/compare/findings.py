"""What a comparison of two modules finds: what differs, layer by layer, and where the two part first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

What = Literal["weights", "forward", "buffers", "backward", "input gradient"]
ORDER: tuple[What, ...] = ("weights", "forward", "buffers", "backward", "input gradient")


@dataclass(frozen=True)
class Finding:
    """One thing that differs.

    Attributes:
        what: weights, the outputs, running statistics, gradients of parameters, of inputs.
        where: torch's key and Flax's path, or the output's name.
        difference: relative; infinity for what cannot be compared.
        limit: what it may be.
        why: what is known of it.
        mode: "evaluation" or "training"; "" for what has no mode.
    """

    what: What
    where: str
    difference: float
    limit: float
    why: str = ""
    mode: str = ""

    def __str__(self) -> str:
        kind = f"{self.what}, {self.mode}" if self.mode else self.what
        size = "" if self.difference == float("inf") else f" by {self.difference:.1e} (limit {self.limit:.0e})"
        return f"{kind}: {self.where} differs{size}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True)
class LayerRow:
    """One call of one layer, compared. Differences are relative; None is not compared.

    Attributes:
        layer: torch's path, and which call.
        path: Flax's path.
        torch: torch's class.
        flax: Flax's class.
        input: of what the layer was given.
        output: of what it gave.
        alone: of its output when Flax's layer is given torch's input.
        arriving: of the gradient that arrived at its output.
        gradient: of its parameters' gradients.
        alone_backward: of the gradients when Flax's layer is given torch's input and torch's arriving gradient.
        reordered: its input has the same numbers in another order.
        notes: ids of the differences that the pair speaks of.
    """

    layer: str
    path: str
    torch: str
    flax: str
    input: float | None = None
    output: float | None = None
    alone: float | None = None
    arriving: float | None = None
    gradient: float | None = None
    alone_backward: float | None = None
    reordered: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parting:
    """Where the two sides part first, in one mode and one direction.

    Attributes:
        direction: "forward" or "backward".
        mode: "evaluation" or "training".
        layer: torch's path of the first layer that differs; "" where all compared layers agree.
        path: Flax's.
        torch: torch's class of it.
        flax: Flax's.
        itself: whether the layer itself is at fault, rather than what is before it (behind it, going backward); None
            where that cannot be told.
        why: the same in a sentence.
        notes: ids of the differences that the pair speaks of.
    """

    direction: Literal["forward", "backward"]
    mode: str
    layer: str
    path: str
    torch: str
    flax: str
    itself: bool | None
    why: str
    notes: tuple[str, ...] = ()
