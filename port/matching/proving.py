"""Proving: `port.check` compares both models with torch's weights converted by the mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.errors import UsageError
from port.mapping import Mapping
from port.matching.result import Match, Row
from port.matching.sides import Sides
from port.parity import check

if TYPE_CHECKING:
    from port.parity import CheckReport

ROUNDED = 1e-6
"""How far apart, relatively, the proof allows two models to be if one goes through float32."""


def proved(sides: Sides, mapping: Mapping, rows: tuple[Row, ...], text: str, remarks: tuple[str, ...] = ()) -> Match:
    """Return the match with its proof, or with what the two models do differently.

    If a model goes through float32 and cannot be judged more precisely, both are compared to 1e-6, and a remark says
    so.

    Args:
        sides: both models.
        mapping: of all tensors.
        rows: the table.
        text: the mapping file's text.
        remarks: about the matching.
    """
    try:
        found = Match(mapping, rows, _report(sides, mapping, None), remarks, text)
        if found.is_proved or not sides.is_narrowed:
            return found
        said = f"a model goes through float32 on its way, so both are compared to {ROUNDED:g}, not to 1e-10"
        return Match(mapping, rows, _report(sides, mapping, ROUNDED), (*remarks, said), text)
    except UsageError as error:
        return Match(mapping, rows, None, (*remarks, f"the proof cannot be run: {error}"), text)


def _report(sides: Sides, mapping: Mapping, rtol: float | None) -> CheckReport:
    return check(
        sides.module, sides.flax_module, sides.inputs, rename=mapping, weights="torch", rtol=rtol, **sides.options
    )
