"""Models that the user requested at other settings, and their programs, to compare with the main program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from port.errors import PortError
from port.translation.assembling import assembled
from port.translation.frontend.construction.settings import ConfiguredModel
from port.translation.frontend.python_random import reseeded
from port.translation.programs import ModelProgram, RunsElsewhere, runs_at
from port.translation.source_difference import difference
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.program import Program
from port.translation.structure.union import united


@dataclass(frozen=True)
class RequestedModel:
    """The original at settings that the user requested.

    Attributes:
        construct: the user's function that constructs it.
        model: the model at these settings.
        runs: its runs; None where it cannot be translated.
        program: its program; None where it cannot be translated.
    """

    construct: Callable[[], Any]
    model: ConfiguredModel
    runs: RunsElsewhere | None = None
    program: Program | None = None


def requested_model(construct: Callable[[], Any], model: ConfiguredModel, base: ModelProgram) -> RequestedModel:
    """Translate a requested model, where that is possible.

    Args:
        construct: the user's function that constructs it, with the weights to run it with.
        model: the model at these settings.
        base: the main program.
    """
    with reseeded(0):
        module = construct()
    found = _written_and_run_at(model, base, module)
    return RequestedModel(construct, model) if found is None else RequestedModel(construct, model, found[1], found[0])


def with_requested_models(
    base: ModelProgram, requested: Sequence[RequestedModel], fixed: frozenset[OwnArgument] = frozenset()
) -> ModelProgram:
    """Unite a program that keeps the original's constructors with those of requested models.

    Args:
        base: the main program; returned unchanged if it does not keep constructors.
        requested: the requested models; one whose definitions conflict with the program's is left out.
        fixed: constructor arguments that are written as their values.
    """
    if base.kept is None:
        return base
    for each in requested:
        if each.runs is None or each.runs.kept is None:
            continue
        try:
            there = each.runs.model_program(fixed).program
        except (PortError, CannotKeep):
            continue  # the proof there reports it
        both = united(base.program, [there])
        base = base if difference(both, there) else replace(base, program=both)
    return base


def program_at(model: ConfiguredModel, base: ModelProgram) -> Program | None:
    """Return the program of a model at other settings.

    None where it cannot be translated there, or where a kept constructor makes something else than the original: equal
    sources do not imply equal models.
    """
    found = _written_and_run_at(model, base)
    return None if found is None else found[0]


def _written_and_run_at(
    model: ConfiguredModel, base: ModelProgram, module: Any = None
) -> tuple[Program, RunsElsewhere] | None:
    try:
        runs = runs_at(model, base, module=module)
        there = runs.model_program()
    except (PortError, AssertionError, CannotKeep):
        return None
    return (there.program, runs) if there.kept is None or is_built(there) else None


def is_built(there: ModelProgram) -> bool:
    """Whether the source of a program constructs a module that its weights fit."""
    try:
        assembled(there)[0].check_built()
    except Exception:  # a kept constructor is the original's code, which may raise anything
        return False
    return True
