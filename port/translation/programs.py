"""The program that says a model: as it is given, or at other settings of its constructor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from port.errors import PortError
from port.translation.both_modes import BothRuns, both_runs
from port.translation.free_dimensions import without
from port.translation.frontend.construction import Construction, constructed
from port.translation.frontend.construction.settings import Sized
from port.translation.frontend.meta_device import is_on_meta
from port.translation.frontend.python_random import again
from port.translation.ir.instrumentation import unwatched
from port.translation.ir.module_tree import ModuleTree
from port.translation.kept_functions import with_kept_functions
from port.translation.structure.classes import program_of
from port.translation.structure.init_inference import Initial, Seen, watched
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.program import Program, with_functions
from port.translation.structure.unreachable import LostLength


@dataclass(frozen=True)
class Programmed:
    """A model's runs, and the program that says them.

    Attributes:
        captured: the runs.
        program: that says them.
        initial: how its parameters and buffers start.
        is_told: whether that was looked at: somebody said how it is constructed, or its class takes no arguments.
        remat: whether calls are to be checkpointed.
    """

    captured: BothRuns
    program: Program
    initial: Initial
    is_told: bool
    remat: bool = False


def programmed(
    captured: BothRuns,
    run: Callable[..., BothRuns],
    seen: Seen,
    construction: Construction | None = None,
    fixed: frozenset[OwnArgument] = frozenset(),
    *,
    remat: bool = False,
) -> Programmed:
    """Say both runs, with as many free lengths as source can say.

    Args:
        captured: the runs.
        run: captures them with other lengths free.
        seen: how parameters and buffers start.
        construction: how the original is constructed.
        fixed: arguments of constructors that are written as their values.
        remat: whether calls are to be checkpointed.
    """
    while True:
        captured, functions = with_kept_functions(captured)
        tree = ModuleTree(captured.root, captured.layers)
        folded = {path for each in captured.runs.values() for path in each.folds}
        initial = Initial(seen, captured.layers, folded)
        try:
            program = program_of(captured.runs, tree, initial, construction, fixed, functions)
            program = with_functions(program, functions)
            return Programmed(captured, program, initial, bool(seen.starts), remat)
        except LostLength as error:
            # A length that the code needs where no array shows it: what it is made of cannot stay free.
            fewer = without(captured, error.formula, run)
            if fewer is None:
                raise
            captured = fewer


def programmed_at(
    model: Sized, base: Programmed, fixed: frozenset[OwnArgument] = frozenset(), *, module: Any = None
) -> Programmed:
    """Say a model at other settings.

    Args:
        model: at the settings.
        base: the one that is translated; the same lengths are free.
        fixed: arguments of constructors that are written as their values.
        module: at the settings, where there is one; otherwise it is constructed, on the meta device if the one is that
            is translated.

    Raises:
        PortError: it cannot be translated there.
    """
    import torch

    with unwatched():
        if module is None:
            with torch.device("meta") if is_on_meta(base.captured.root) else nullcontext():
                module = constructed_at(model)
        run = partial(both_runs, module, model.args, model.kwargs, remat=base.remat, check=False)
        captured = run(free=base.captured.free)
        seen = watched(captured.root, model.construct if base.is_told else None)
        return programmed(captured, run, seen, constructed(captured.root, model.construct), fixed, remat=base.remat)


def constructed_at(model: Sized) -> Any:
    """A model at other settings, constructed in silence."""
    with again(0):
        return model.construct()


def written_at(model: Sized, base: Programmed) -> Program | None:
    """The program of a model at other settings; None where it cannot be translated there."""
    try:
        return programmed_at(model, base).program
    except (PortError, AssertionError):
        return None
