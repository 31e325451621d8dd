"""Where a run enters and leaves the original's own functions: ``q, k = apply_rotary_pos_emb(q, k, cos, sin)``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from port.translation.ir.number import Numbers
from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class FunctionEnter:
    """A function of the original's begins.

    Attributes:
        function: itself, a plain function of Python's.
        call: its number, among all calls of functions in the run.
        arguments: what it was called with, by the names of its parameters, defaults among them.
        positional: the parameters that the call gives by their places.
        named: those that it gives by name; all others are left to their defaults.
        place: where it is called.
        numbers: the origins of the numbers among the arguments.
    """

    function: Any
    call: int
    arguments: dict[str, Any]
    positional: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    place: SourceLocation | None = None
    numbers: Numbers = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class FunctionExit:
    """The same function ends: what it returns."""

    function: Any
    call: int
    results: Any
