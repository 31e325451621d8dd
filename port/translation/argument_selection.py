"""Select the arguments of written constructors, and decide whether to keep the constructors of the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from port.translation.argument_validation import ValidatedArguments, validated_arguments, with_fixed
from port.translation.at_other_settings import other_model
from port.translation.both_modes import BothRuns
from port.translation.frontend.construction import Construction
from port.translation.frontend.construction.accepted_models import modules_of, with_user_settings
from port.translation.frontend.construction.arguments import is_configuration
from port.translation.frontend.construction.constructed_values import with_constructed_values
from port.translation.frontend.construction.construction_calls import ConstructionCalls
from port.translation.frontend.construction.settings import ConfiguredModel, Setting, configured_model
from port.translation.isolated_part import isolated_part
from port.translation.options import CapturedModel, TranslationOptions
from port.translation.other_settings import CONSTRUCTED_OTHERWISE, NOT_CONSTRUCTED, OtherModel, OtherSettings
from port.translation.program_settings import named_settings
from port.translation.programs import ModelProgram, calls_of, model_program
from port.translation.requested_models import (
    RequestedModel,
    is_built,
    program_at,
    requested_model,
    with_requested_models,
)
from port.translation.structure.ctor_args import parameters
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.program import Program


@dataclass(frozen=True)
class SelectedArguments:
    """The arguments that the written constructors take, and what was translated to select them.

    Attributes:
        validated: the validated arguments.
        model: the model at its own settings; None where it cannot be constructed at others.
        kept: the calls of its constructors if these are kept, else None.
        requested: the models that the user requested.
        program: with all arguments; None where none was validated.
    """

    validated: ValidatedArguments
    model: ConfiguredModel | None = None
    kept: ConstructionCalls | None = None
    requested: Sequence[RequestedModel] = ()
    program: Program | None = None

    def without(self, wrong: Mapping[Setting, str]) -> SelectedArguments:
        """Return the same with settings fixed that were found to fail, each with why."""
        if self.program is None:
            return self
        return replace(self, validated=with_fixed(self.validated, self.program, wrong))


def select_arguments(original: CapturedModel, options: TranslationOptions, *, keeps: bool) -> SelectedArguments:
    """Select the arguments that the written constructors take.

    Args:
        original: the model.
        options: the options of its translation.
        keeps: whether the original's constructors may be kept.
    """
    captured, root = original.captured, original.root
    cls: Any = type(root)
    if original.construction is None:
        unknown = original.unknown or (CONSTRUCTED_OTHERWISE if original.construct is not None else NOT_CONSTRUCTED)
        has_arguments = options.check and bool(parameters(cls))
        settings = OtherSettings(unknown=unknown) if has_arguments else OtherSettings()
        return SelectedArguments(ValidatedArguments(settings=settings))
    model = configured_model(original.construction, root, [(case.args, case.kwargs) for case in captured])
    if model is not None and original.construct is not None:
        model = replace(model, arguments=with_constructed_values(model.arguments, original.construct))
    program = partial(
        model_program, captured, original.run, original.seen, original.construction, remat=bool(options.remat)
    )
    whole = _whole(captured, program, model if keeps else None) or program()
    requested = []
    if model is not None:
        requested = [requested_model(each, other_model(model, each), whole) for each in options.at if callable(each)]
        whole = with_requested_models(whole, requested)
    steps = sum(len(case.graphs[True].steps) for case in captured)
    near = None if model is None else _near(whole, model, requested, options.at)
    # Constructors that are kept need no validation in isolation.
    isolate = partial(_isolated, captured[0], original.construction) if whole.kept is None else None
    shown = [(each.model, each.program) for each in requested if each.program is not None]

    def written(other: ConfiguredModel) -> Program | None:
        known = next((program for one, program in shown if one is other), None)
        return program_at(other, whole) if known is None else known

    validated = validated_arguments(
        whole.program, model, written, isolate=isolate, steps=steps, near=near, requested=shown
    )
    return SelectedArguments(validated, model, whole.kept, requested, whole.program)


def _isolated(
    captured: BothRuns, construction: Construction, path: str
) -> tuple[Program, ConfiguredModel, Callable[[ConfiguredModel], Program | None]] | None:
    """Translate the part at a path on its own: its program, its settings, and its programs at others."""
    found = isolated_part(path, captured, construction)
    if found is None:
        return None
    return found.model_program.program, found.model, partial(program_at, base=found.model_program)


def _near(
    whole: ModelProgram, model: ConfiguredModel, requested: Sequence[RequestedModel], at: Sequence[OtherModel]
) -> ConfiguredModel | None:
    """Return the smallest configuration that the user requested, if it has at most half of the model's modules."""
    there = [each.model for each in requested]
    for settings in (each for each in at if not callable(each)):
        try:
            names = named_settings(whole.program, settings)
            there.append(with_user_settings(model, {names[name]: value for name, value in settings.items()}))
        except Exception:  # an unknown name, or the original's own error; the proof there reports it
            continue
    near = min(there, key=modules_of, default=None)
    return near if near is not None and 2 * modules_of(near) <= modules_of(model) else None


def _whole(
    captured: Sequence[BothRuns], program: Callable[..., ModelProgram], model: ConfiguredModel | None
) -> ModelProgram | None:
    """Write the program with the original's constructors kept; None where that is impossible."""
    if model is None or any(map(is_configuration, model.arguments.values())):
        return None  # a configuration is written as the fields that are read
    try:
        whole = program(kept=calls_of(captured[0], model))
    except CannotKeep:
        return None
    return whole if is_built(whole) else None
