"""Marks where a run enters and leaves functions of the original: ``q, k = apply_rotary_pos_emb(q, k, cos, sin)``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from port.translation.ir.number import Numbers
from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class FunctionEnter:
    """The start of a call of a function of the original.

    Attributes:
        function: the Python function.
        call: the call's number among all function calls of the run.
        arguments: parameter → argument, including defaults.
        positional: the parameters that the call passes positionally.
        named: those that it passes by keyword; the others have their defaults.
        place: the location of the call.
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
    """The end of the call, with its results."""

    function: Any
    call: int
    results: Any
