"""Build the program of a model, at its own or at other settings of its constructor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from port.errors import UsageError
from port.translation.both_modes import BothRuns, both_runs
from port.translation.free_dimensions import with_formula_fixed
from port.translation.frontend.construction import Construction, constructed
from port.translation.frontend.construction.argument_classes import layer_classes_in, module_classes_made
from port.translation.frontend.construction.construction_calls import ConstructionCalls, construction_calls
from port.translation.frontend.construction.settings import ConfiguredModel
from port.translation.frontend.meta_device import built_on_meta, is_on_meta
from port.translation.frontend.python_random import reseeded
from port.translation.ir.instrumentation import unwatched
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.classes import program_of
from port.translation.structure.init_inference import Initial, Seen, watched
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.program import Program, with_functions
from port.translation.structure.unreachable import LostLength
from port.translation.writable_functions import with_writable_functions


@dataclass(frozen=True)
class ModelProgram:
    """A model's runs, and the program that expresses them.

    Attributes:
        cases: the runs of each example call.
        program: the program.
        initial: how its parameters and buffers are initialised.
        has_starts: whether the initialisation was observed, by constructing the model.
        remat: whether calls will be checkpointed.
        kept: the calls of the original's constructors, if these are kept.
    """

    cases: tuple[BothRuns, ...]
    program: Program
    initial: Initial
    has_starts: bool
    remat: bool = False
    kept: ConstructionCalls | None = None

    @property
    def captured(self) -> BothRuns:
        """The runs of the first example call."""
        return self.cases[0]


def model_program(
    cases: Sequence[BothRuns],
    run: Callable[..., BothRuns],
    seen: Seen,
    construction: Construction | None = None,
    fixed: frozenset[OwnArgument] = frozenset(),
    *,
    remat: bool = False,
    kept: ConstructionCalls | None = None,
) -> ModelProgram:
    """Build the program of both runs, with as many free lengths as the source can express.

    Args:
        cases: the runs of each example call.
        run: captures a call with other lengths free.
        seen: how parameters and buffers are initialised.
        construction: how the original is constructed.
        fixed: constructor arguments that are written as their values.
        remat: whether calls will be checkpointed.
        kept: the calls of the original's constructors, if these should be kept.

    Raises:
        CannotKeep: the constructors cannot be kept.
    """
    cases = list(cases)
    while True:
        cases, functions = with_writable_functions(cases)
        tree = ModuleTree(cases[0].root, cases[0].layers)
        folded = {path for captured in cases for each in captured.runs.values() for path in each.folds}
        # Kept constructors do not use the arguments of this construction.
        draws = None if construction is None or kept is not None else construction.draws
        initial = Initial(seen, cases[0].layers, folded, draws)
        check_same_layouts(cases)
        try:
            runs = [captured.runs for captured in cases]
            program = program_of(runs, tree, initial, construction, fixed, functions, kept)
            program = with_functions(program, functions)
            if {made.name for made in program.functions} & {made.name for made in program.definitions}:
                raise CannotKeep("its calls and its constructors call the same function")
            return ModelProgram(tuple(cases), program, initial, bool(seen.starts), remat, kept)
        except LostLength as error:
            # The code needs a length where no array has it, so the lengths in its formula cannot stay free.
            captured = cases[error.case]
            fewer = with_formula_fixed(captured, error.formula, partial(run, captured.args, captured.kwargs))
            if fewer is None:
                raise
            cases[error.case] = fewer


def check_same_layouts(cases: Sequence[BothRuns]) -> None:
    """Check that all example calls read each of the module's tensors in the same layout.

    Raises:
        UsageError: two calls differ; names the tensor.
    """
    known: dict[str, Any] = {}
    for captured in cases:
        runs = captured.runs.values()
        # A layer that only one mode calls is held unchanged in the other.
        folds = [(f"{path}.weight", fold) for run in runs for path, fold in run.folds.items()]
        for run in runs:
            held = {name: run.layouts[value] for value, name in run.graph.held.items()}
            for name, layout in [*folds, *{**held, **dict(folds)}.items()]:
                if known.setdefault(name, layout) != layout:
                    raise UsageError(
                        f"two example calls read {name} in different layouts, and the written module holds it in one: "
                        "translate each call separately"
                    )


@dataclass(frozen=True)
class RunsElsewhere:
    """The runs of a model at other settings, whose program can be built with any arguments fixed."""

    cases: Sequence[BothRuns]
    run: Callable[..., BothRuns]
    seen: Seen
    remat: bool
    construction: Construction | None = None
    kept: ConstructionCalls | None = None

    def model_program(self, fixed: frozenset[OwnArgument] = frozenset()) -> ModelProgram:
        """Build their program, as the function `model_program` does."""
        with unwatched():
            return model_program(
                self.cases, self.run, self.seen, self.construction, fixed, remat=self.remat, kept=self.kept
            )


def runs_at(model: ConfiguredModel, base: ModelProgram, *, module: Any = None) -> RunsElsewhere:
    """Capture a model at other settings.

    Args:
        model: the model at these settings.
        base: the translated model; the same lengths are left free.
        module: a module with these settings; by default one is constructed, on the meta device if the translated model
            is there.

    Raises:
        PortError: the model cannot be translated there.
        CannotKeep: its constructors cannot be kept.
    """
    with unwatched():
        if module is None:
            module = constructed_at(model, is_on_meta(base.captured.root))
        run = partial(both_runs, module, remat=base.remat, check=False)
        calls = zip(model.calls, base.cases, strict=True)
        cases = [run(args, kwargs, free=captured.free) for (args, kwargs), captured in calls]
        root = cases[0].root
        seen = watched(root, model.construct if base.has_starts else None)
        if base.kept is None:
            return RunsElsewhere(cases, run, seen, base.remat, construction=constructed(root, model.construct))
        return RunsElsewhere(cases, run, seen, base.remat, kept=calls_of(cases[0], model))


def calls_of(captured: BothRuns, model: ConfiguredModel) -> ConstructionCalls:
    """Record the calls of a model's constructors.

    Raises:
        CannotKeep: the original cannot be reconstructed.
    """
    layers = frozenset(type(module) for module in captured.layers.values())
    calls = construction_calls(
        captured.root,
        model.construct_without_replacements,
        layers,
        layer_classes_in(model.arguments, layers),
        module_classes_made(model.arguments),
        model.replaced,
    )
    if calls is None:
        raise CannotKeep("reconstructed, the original is a different model, or fails")
    return replace(calls, root=model.arguments)


def constructed_at(model: ConfiguredModel, on_meta: bool = False) -> Any:
    """Construct a model at other settings, without output and with seeded generators."""
    with reseeded(0):
        return built_on_meta(model.construct) if on_meta else model.construct()
