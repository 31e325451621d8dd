"""The program that says a model: as it is given, or at other settings of its constructor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from port.errors import UsageError
from port.translation.both_modes import BothRuns, both_runs
from port.translation.free_dimensions import without
from port.translation.frontend.construction import Construction, constructed
from port.translation.frontend.construction.argument_classes import layer_classes_in, module_classes_made
from port.translation.frontend.construction.construction_calls import ConstructionCalls, construction_calls
from port.translation.frontend.construction.settings import ConfiguredModel
from port.translation.frontend.meta_device import is_on_meta, on_meta_alone
from port.translation.frontend.python_random import reseeded
from port.translation.ir.instrumentation import unwatched
from port.translation.ir.module_tree import ModuleTree
from port.translation.kept_functions import with_kept_functions
from port.translation.structure.classes import program_of
from port.translation.structure.init_inference import Initial, Seen, watched
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.program import Program, with_functions
from port.translation.structure.unreachable import LostLength


@dataclass(frozen=True)
class Programmed:
    """A model's runs, and the program that says them.

    Attributes:
        cases: the runs of each example call.
        program: that says them.
        initial: how its parameters and buffers start.
        is_told: whether that was looked at: somebody said how it is constructed, or its class takes no arguments.
        remat: whether calls are to be checkpointed.
        kept: the calls of constructors that are written as their source has them.
    """

    cases: tuple[BothRuns, ...]
    program: Program
    initial: Initial
    is_told: bool
    remat: bool = False
    kept: ConstructionCalls | None = None

    @property
    def captured(self) -> BothRuns:
        """The runs of the first example call."""
        return self.cases[0]


def programmed(
    cases: Sequence[BothRuns],
    run: Callable[..., BothRuns],
    seen: Seen,
    construction: Construction | None = None,
    fixed: frozenset[OwnArgument] = frozenset(),
    *,
    remat: bool = False,
    kept: ConstructionCalls | None = None,
) -> Programmed:
    """Say both runs, with as many free lengths as source can say.

    Args:
        cases: the runs of each example call.
        run: captures one with other lengths free, given the call's arguments.
        seen: how parameters and buffers start.
        construction: how the original is constructed.
        fixed: arguments of constructors that are written as their values.
        remat: whether calls are to be checkpointed.
        kept: the calls of the original's constructors, if these are to be written as their source has them.

    Raises:
        CannotKeep: they cannot be.
    """
    cases = list(cases)
    while True:
        cases, functions = with_kept_functions(cases)
        tree = ModuleTree(cases[0].root, cases[0].layers)
        folded = {path for captured in cases for each in captured.runs.values() for path in each.folds}
        # Constructors that are kept say nothing with the arguments of this construction.
        draws = None if construction is None or kept is not None else construction.draws
        initial = Initial(seen, cases[0].layers, folded, draws)
        check_same_layouts(cases)
        try:
            runs = [captured.runs for captured in cases]
            program = program_of(runs, tree, initial, construction, fixed, functions, kept)
            program = with_functions(program, functions)
            if {made.name for made in program.functions} & {made.name for made in program.definitions}:
                raise CannotKeep("its calls and its constructors call the same function")
            return Programmed(tuple(cases), program, initial, bool(seen.starts), remat, kept)
        except LostLength as error:
            # A length that the code needs where no array shows it: what it is made of cannot stay free.
            captured = cases[error.case]
            fewer = without(captured, error.formula, partial(run, captured.args, captured.kwargs))
            if fewer is None:
                raise
            cases[error.case] = fewer


def check_same_layouts(cases: Sequence[BothRuns]) -> None:
    """See that all example calls read what the module holds with its axes in one order.

    Raises:
        UsageError: they do not; names what they read otherwise.
    """
    known: dict[str, Any] = {}
    for captured in cases:
        runs = captured.runs.values()
        # What only one mode calls, the other holds as it is.
        folds = [(f"{path}.weight", fold) for run in runs for path, fold in run.folds.items()]
        for run in runs:
            held = {name: run.layouts[value] for value, name in run.graph.held.items()}
            for name, layout in [*folds, *{**held, **dict(folds)}.items()]:
                if known.setdefault(name, layout) != layout:
                    raise UsageError(
                        f"two example calls read {name} with its axes in different orders, and the written module "
                        "holds it in one: translate each call by itself"
                    )


@dataclass(frozen=True)
class RunsElsewhere:
    """The runs of a model at other settings, which are said with any arguments fixed."""

    cases: Sequence[BothRuns]
    run: Callable[..., BothRuns]
    seen: Seen
    remat: bool
    construction: Construction | None = None
    kept: ConstructionCalls | None = None

    def programmed(self, fixed: frozenset[OwnArgument] = frozenset()) -> Programmed:
        """Say them, as `programmed` does."""
        with unwatched():
            return programmed(
                self.cases, self.run, self.seen, self.construction, fixed, remat=self.remat, kept=self.kept
            )


def runs_at(model: ConfiguredModel, base: Programmed, *, module: Any = None) -> RunsElsewhere:
    """Run a model at other settings.

    Args:
        model: at the settings.
        base: the one that is translated; the same lengths are free.
        module: at the settings, where there is one; otherwise it is constructed, on the meta device if the one is that
            is translated.

    Raises:
        PortError: it cannot be translated there.
        CannotKeep: its constructors cannot be written as their source has them.
    """
    with unwatched():
        if module is None:
            module = constructed_at(model, is_on_meta(base.captured.root))
        run = partial(both_runs, module, remat=base.remat, check=False)
        calls = zip(model.calls, base.cases, strict=True)
        cases = [run(args, kwargs, free=captured.free) for (args, kwargs), captured in calls]
        root = cases[0].root
        seen = watched(root, model.construct if base.is_told else None)
        if base.kept is None:
            return RunsElsewhere(cases, run, seen, base.remat, construction=constructed(root, model.construct))
        return RunsElsewhere(cases, run, seen, base.remat, kept=calls_of(cases[0], model))


def calls_of(captured: BothRuns, model: ConfiguredModel) -> ConstructionCalls:
    """The calls of a model's constructors.

    Raises:
        CannotKeep: the original cannot be constructed anew.
    """
    layers = frozenset(type(module) for module in captured.layers.values())
    calls = construction_calls(
        captured.root,
        model.as_its_class_makes_it,
        layers,
        layer_classes_in(model.arguments, layers),
        module_classes_made(model.arguments),
        model.replaced,
    )
    if calls is None:
        raise CannotKeep("constructed once more, the original is another model, or fails")
    return replace(calls, root=model.arguments)


def constructed_at(model: ConfiguredModel, on_meta: bool = False) -> Any:
    """A model at other settings, constructed in silence."""
    with reseeded(0):
        return on_meta_alone(model.construct) if on_meta else model.construct()
