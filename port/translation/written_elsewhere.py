"""The program of a model at other settings of its constructor, to be compared with the one that is written."""

from __future__ import annotations

from port.errors import PortError
from port.translation.assembling import assembled
from port.translation.frontend.construction.settings import Sized
from port.translation.programs import Programmed, programmed_at
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.program import Program


def written_at(model: Sized, base: Programmed) -> Program | None:
    """The program of a model at other settings.

    None where it cannot be translated there, or where the original's source, written for the twins, makes something
    else than the original: that two sources are the same says nothing of what they make.
    """
    try:
        there = programmed_at(model, base)
    except (PortError, AssertionError, CannotKeep):
        return None
    return there.program if there.kept is None or is_built(there) else None


def is_built(there: Programmed) -> bool:
    """Whether the source of a model constructs what its weights are for."""
    try:
        assembled(there)[0].check_built()
    except Exception:  # it is the original's code, which may refuse anything
        return False
    return True
