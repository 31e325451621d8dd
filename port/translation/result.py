"""What translating a module gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from port.translation.artifact.written_module import WrittenModule
from port.translation.ir.lowered import Unsupported
from port.translation.verify import Proof


@dataclass(frozen=True)
class Translation(WrittenModule):
    """A torch module, and the Flax module that was written from it.

    Attributes:
        notes: ids of the differences met → where in the original, file:line.
        unwritten: what no pair speaks of; the source raises there.
        transposes: how many were written for the layout's sake.
        without_start: names of parameters and buffers whose initial values are not known → why; a new module raises.
        copied_starts: names of those that the original starts as copies → of which; here each draws its own.
        standalone: whether the source imports nothing of ``port``'s.
        proof: the float64 comparison of both sides; None if it was not asked for, or nothing could be run.
    """

    notes: dict[str, list[str]] = field(default_factory=dict)
    unwritten: tuple[Unsupported, ...] = ()
    transposes: int = 0
    without_start: dict[str, str] = field(default_factory=dict)
    copied_starts: dict[str, str] = field(default_factory=dict)
    standalone: bool = False
    proof: Proof | None = None
