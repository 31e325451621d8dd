"""What layout assignment has decided, and why: a line a decision (``--print-after layout``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout
from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class LayoutDecision:
    """The layout of something that may lie as its readers want it.

    Attributes:
        value: an input, a parameter, the result of a permutation or of a flatten, what a loop carries.
        layout: that it was given.
        asked_for: the first reader that wants it so.
        saves: how many transposes.
        elements: how many elements are moved less at the example's lengths, in both modes together.
        along_with: the value whose decision this one is part of, and which says what both save.
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
    """The layouts of what may lie as its readers want it, in both modes; what is not here lies as torch has it.

    Attributes:
        chosen: by the value's name.
        decisions: in the order in which they were taken.
        transposes: how many are left, in both modes together.
        elements: how many elements these move.
    """

    chosen: Mapping[str, Layout] = field(default_factory=dict)
    decisions: tuple[LayoutDecision, ...] = ()
    transposes: int = 0
    elements: int = 0

    def __str__(self) -> str:
        left = f"left: {self.transposes} transposes of {self.elements} elements in both modes"
        return "\n".join([*map(str, self.decisions), left])
