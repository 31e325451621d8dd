"""The decisions of layout assignment, with their reasons: one line each (``--print-after layout``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout
from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class LayoutDecision:
    """The layout chosen for a value whose layout is free.

    Attributes:
        value: an input, a parameter, the result of a permutation or a flatten, or a loop's carry.
        layout: the chosen layout.
        asked_for: the location of the first reader that needs it.
        saves: the number of transposes saved.
        elements: the number of element moves saved at the example's lengths, in both modes together.
        along_with: the value whose decision includes this one; that decision has the savings of both.
    """

    value: Value
    layout: Layout
    asked_for: SourceLocation | None
    saves: int = 0
    elements: int = 0
    along_with: Value | None = None

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.value.shape or ()))
        laid = f"{self.value!r}: {self.value.dtype}[{shape}] as {self.layout}"
        if self.along_with is not None:
            return f"{laid}: along with {self.along_with!r}"
        where = "" if self.asked_for is None else f", asked for at {self.asked_for}"
        saved = f"{self.saves} transposes and the move of {self.elements} elements"
        return f"{laid}{where}: saves {saved}"


@dataclass(frozen=True)
class Layouts:
    """The chosen layouts, for both modes; every other source has torch's layout.

    Attributes:
        chosen: value's name → layout.
        decisions: in the order in which they were taken.
        transposes: the number of transposes left, in both modes together.
        elements: the number of elements that these move.
    """

    chosen: Mapping[str, Layout] = field(default_factory=dict)
    decisions: tuple[LayoutDecision, ...] = ()
    transposes: int = 0
    elements: int = 0

    def __str__(self) -> str:
        left = f"left: {self.transposes} transposes of {self.elements} elements in both modes"
        return "\n".join([*map(str, self.decisions), left])
