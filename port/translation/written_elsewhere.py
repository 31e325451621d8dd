"""The program of a model at other settings of its constructor, to be compared with the one that is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from port.errors import PortError
from port.translation.assembling import assembled
from port.translation.frontend.construction.settings import ConfiguredModel
from port.translation.frontend.python_random import reseeded
from port.translation.programs import Programmed, RunsElsewhere, runs_at
from port.translation.source_difference import difference
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.program import Program
from port.translation.structure.union import united


@dataclass(frozen=True)
class Asked:
    """The original as somebody constructs it otherwise.

    Attributes:
        construct: gives it.
        model: at these settings.
        runs: of it there, and
        program: what is written of them; both None where it cannot be translated.
    """

    construct: Callable[[], Any]
    model: ConfiguredModel
    runs: RunsElsewhere | None = None
    program: Program | None = None


def asked_for(construct: Callable[[], Any], model: ConfiguredModel, base: Programmed) -> Asked:
    """What is written where somebody asks for it; None in its place where nothing can be.

    Args:
        construct: the original as it is asked for, with the weights that it is run with.
        model: at these settings.
        base: the program that is written.
    """
    with reseeded(0):
        module = construct()
    found = _written_and_run_at(model, base, module)
    return Asked(construct, model) if found is None else Asked(construct, model, found[1], found[0])


def with_asked(base: Programmed, asked: Sequence[Asked], fixed: frozenset[OwnArgument] = frozenset()) -> Programmed:
    """A program with what is written where somebody asks for it, if its constructors are the original's own.

    Args:
        base: of the model.
        asked: what somebody asked for; what differs from the model by more than what only one has is left.
        fixed: arguments of constructors that are written as their values.
    """
    if base.kept is None:
        return base
    for each in asked:
        if each.runs is None or each.runs.kept is None:
            continue
        try:
            there = each.runs.programmed(fixed).program
        except (PortError, CannotKeep):
            continue  # the proof there says why
        both = united(base.program, [there])
        base = base if difference(both, there) else replace(base, program=both)
    return base


def written_at(model: ConfiguredModel, base: Programmed) -> Program | None:
    """The program of a model at other settings.

    None where it cannot be translated there, or where the original's source, written for the twins, makes something
    else than the original: that two sources are the same says nothing of what they make.
    """
    found = _written_and_run_at(model, base)
    return None if found is None else found[0]


def _written_and_run_at(
    model: ConfiguredModel, base: Programmed, module: Any = None
) -> tuple[Program, RunsElsewhere] | None:
    try:
        runs = runs_at(model, base, module=module)
        there = runs.programmed()
    except (PortError, AssertionError, CannotKeep):
        return None
    return (there.program, runs) if there.kept is None or is_built(there) else None


def is_built(there: Programmed) -> bool:
    """Whether the source of a model constructs what its weights are for."""
    try:
        assembled(there)[0].check_built()
    except Exception:  # it is the original's code, which may refuse anything
        return False
    return True
