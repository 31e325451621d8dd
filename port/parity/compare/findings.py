"""The findings of comparing two modules: what differs, layer by layer, and where the two first diverge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

What = Literal["weights", "forward", "buffers", "backward", "input gradient"]
ORDER: tuple[What, ...] = ("weights", "forward", "buffers", "backward", "input gradient")
WORDS: dict[What, str] = {
    "weights": "weights",
    "forward": "outputs",
    "buffers": "buffers",
    "backward": "gradients",
    "input gradient": "gradients of the inputs",
}
"""The name of a row of each kind."""


@dataclass(frozen=True)
class Finding:
    """One difference.

    Attributes:
        what: weights, the outputs, running statistics, gradients of parameters, of inputs.
        where: torch's key and Flax's path, or the output's name.
        difference: the relative difference; infinity for what cannot be compared.
        limit: the largest allowed difference.
        why: what is known about it.
        mode: "evaluation" or "training"; "" if it has no mode.
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
    """The comparison of one layer call. Differences are relative; None means not compared.

    Attributes:
        layer: torch's path, and which call.
        path: Flax's path.
        torch: torch's class.
        flax: Flax's class.
        input: difference of the layer's inputs.
        output: difference of its outputs.
        alone: difference of its outputs when Flax's layer runs on torch's input.
        arriving: difference of the gradients that arrive at its output.
        gradient: difference of its parameters' gradients.
        alone_backward: difference of the gradients when Flax's layer runs on torch's input and arriving gradient.
        reordered: whether its input has the same numbers in another order.
        notes: ids of the differences that the pair lists.
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
    """Where the two sides first diverge, in one mode and one direction.

    Attributes:
        direction: "forward" or "backward".
        mode: "evaluation" or "training".
        layer: torch's path of the first layer that differs; "" if all compared layers agree.
        path: Flax's path of it.
        torch: torch's class of it.
        flax: Flax's class of it.
        itself: whether the layer itself is at fault, rather than what is before it (after it, going backward); None
            if that cannot be decided.
        why: the same in a sentence.
        notes: ids of the differences that the pair lists.
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
