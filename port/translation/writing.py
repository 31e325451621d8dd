"""Write the translation of a captured model: the source with its valid constructor arguments, and the proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from port.errors import UsageError
from port.translation.argument_selection import SelectedArguments, select_arguments
from port.translation.argument_validation import ValidatedArguments
from port.translation.assembling import assembled, packaged
from port.translation.at_other_settings import ModelAtOtherSettings, joined_proofs, prove_cases
from port.translation.axes.finding import logical_axes_of
from port.translation.both_modes import BothRuns
from port.translation.codegen.emit import formatted
from port.translation.codegen.length_checks import expectations
from port.translation.codegen.vendor import with_own_copies
from port.translation.free_dimensions import (
    with_fewer,
    without_long_conditions,
)
from port.translation.frontend.construction.construction_calls import ConstructionCalls
from port.translation.frontend.construction.settings import ConfiguredModel, Setting
from port.translation.frontend.long_formulas import LONGEST
from port.translation.frontend.meta_device import WITHOUT_WEIGHTS, check_recoverable, is_on_meta
from port.translation.ir import syntax
from port.translation.neighbouring_sizes import compare_neighbouring_sizes
from port.translation.options import CapturedModel, TranslationOptions
from port.translation.program_settings import settings_of
from port.translation.programs import ModelProgram, model_program
from port.translation.requested_models import RequestedModel, with_requested_models
from port.translation.result import Translation
from port.translation.stacking import NO_STACKS, stacking_of
from port.translation.structure.case_merge import Indistinct, merged_cases
from port.translation.structure.cases import CaseBody
from port.translation.structure.entangled import Entangled
from port.translation.structure.layer_stacks import LayerStack
from port.translation.structure.logical_axes import NO_AXES, LogicalAxes
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.program import Program
from port.translation.structure.untaken import guards
from port.translation.structure.written_body import Body
from port.translation.verify import OriginalAndWritten, Proof, settled
from port.translation.verify.combinations import refused_combinations


@dataclass(frozen=True)
class SourceForm:
    """How a program is written: its stacks, and the logical axes of its parameters."""

    stacks: tuple[LayerStack, ...]
    axes: LogicalAxes


def write_translation(
    original: CapturedModel,
    options: TranslationOptions,
    *,
    keeps: bool = True,
    selected: SelectedArguments | None = None,
) -> tuple[Translation, bool]:
    """Write the translation of a model.

    Args:
        original: the model.
        options: the options of its translation.
        keeps: whether the original's constructors may be kept.
        selected: the arguments that its constructors take; by default they are selected here.

    Returns:
        The translation, and whether the original's constructors are kept.

    Raises:
        UsageError: two example calls that no argument distinguishes; settings in ``at`` that the original or the source
            does not take.
    """
    root, check, remat = original.root, options.check, options.remat
    without_weights = is_on_meta(root)
    with _distinct_calls(root):
        selected = select_arguments(original, options, keeps=keeps) if selected is None else selected
        validated, model, kept, requested = selected.validated, selected.model, selected.kept, selected.requested
        settles = check and not without_weights
        base, made, source, form = _written_program(
            original, options, validated.fixed, kept=kept, requested=requested, settles=settles
        )
    if without_weights:
        check_recoverable(root, made.without_start)
    calls = [(case.args, case.kwargs) for case in base.cases]
    is_run = check and not without_weights and not made.unwritten
    refused = refused_combinations(root, (made, *made.others), calls, check=is_run)
    made = replace(made, untaken=(*made.untaken, *map(str, refused)))
    text = source(checks=_checks(base, made, validated, refused))
    whole = formatted(with_own_copies(text)) if options.standalone else text
    made = replace(made, source=whole, standalone=options.standalone, settings=validated.settings)
    if options.package:
        made = replace(made, package=packaged(made, base.captured, name=options.name))
    others = (replace(other, source=made.source, package=made.package) for other in made.others)
    made = replace(made, others=tuple(others))
    if not check or made.unwritten:
        return made, kept is not None
    elsewhere = ModelAtOtherSettings(base, model, validated.fixed, made, remat, requested, form.stacks, form.axes)
    there = [elsewhere.model(each) for each in options.at]  # first, so that bad settings are refused early
    if without_weights:
        proof = Proof((), unjudged=WITHOUT_WEIGHTS)
    else:
        start = time.monotonic()
        proof = prove_cases(root, made, calls, time_limit=options.time_limit, tell=options.tell)
        if proof.agrees and model is not None and options.sizes_limit:
            settings = _free(base.program, model, validated)
            times = {"limit": options.sizes_limit, "expected": time.monotonic() - start}
            around = compare_neighbouring_sizes(elsewhere, model, settings, **times, tell=options.tell)
            if around.wrong is not None:
                # If two were changed together, fix the second: each alone agreed.
                refuted = selected.without({around.wrong.moved[-1]: around.wrong.sentence})
                return write_translation(original, options, keeps=keeps, selected=refuted)
            made = replace(made, settings=replace(validated.settings, sizes=around))
            proof = replace(proof, sizes=made.settings.sentence)
    proofs = [(model.named, elsewhere.proof(model, time_limit=options.time_limit)) for model in there]
    return replace(made, proof=joined_proofs(proof, proofs), elsewhere=elsewhere), kept is not None


def _free(program: Program, model: ConfiguredModel, validated: ValidatedArguments) -> list[Setting]:
    """Return the root's settings for which the source takes other values."""
    there = model.settings()
    return [each for each, own in settings_of(program).items() if each in there and own not in validated.fixed]


@contextmanager
def _distinct_calls(root: Any) -> Iterator[None]:
    """Report example calls that no argument distinguishes as a user error, within the context.

    Raises:
        UsageError: there are two; says which line differs, and what decides it.
    """
    try:
        yield
    except Indistinct as error:
        one, other = (case + 1 for case in error.cases)
        raise UsageError(
            f"the arguments of {type(root).__qualname__} do not tell example call {one} from {other}: only one of them "
            f"runs `{error.statement}`; that depends on {error.decides or 'none of the arguments of forward'}. Make it "
            "an argument, or translate each call separately"
        ) from None


def _written_program(
    original: CapturedModel,
    options: TranslationOptions,
    fixed: frozenset[OwnArgument],
    *,
    kept: ConstructionCalls | None,
    requested: Sequence[RequestedModel],
    settles: bool,
) -> tuple[ModelProgram, Translation, Callable[..., str], SourceForm]:
    """Build the program, its translation, the function that renders its source, and its form; fix lengths as needed."""
    captured, run, remat = original.captured, original.run, options.remat
    while True:
        base = model_program(captured, run, original.seen, original.construction, fixed, remat=bool(remat), kept=kept)
        base = with_requested_models(base, requested, fixed)
        stacking = stacking_of(base, remat) if options.scan else NO_STACKS
        made, source = assembled(base, name=options.name, remat=remat, stacks=stacking.stacks)
        axes = NO_AXES
        if options.logical_axes and not made.unwritten:
            axes = logical_axes_of(made, (base.captured.args, base.captured.kwargs))
            made, source = assembled(base, name=options.name, remat=remat, stacks=stacking.stacks, axes=axes)
        made, fewer = _settle_all_lengths(base, made, run, check=settles)
        if fewer is None:
            return base, replace(made, apart=stacking.apart), source, SourceForm(stacking.stacks, axes)
        captured = fewer


def _checks(
    base: ModelProgram, made: Translation, validated: ValidatedArguments, refused: Sequence[Entangled]
) -> list[syntax.Stmt]:
    """Return the checks at the start of the root's call, which refuse inputs that were not translated."""
    checks = {}
    for number, (case, called) in enumerate(zip(base.cases, (made, *made.others), strict=True)):
        lowered = case.runs[True]
        expected = called.lengths.with_names(validated.resized)
        lines = expectations(lowered.graph, lowered.layouts, expected, list(made.boundary.parameters))
        checks[number] = CaseBody(Body((), tuple(lines), None), base.program.held[number])
    try:
        lines = list(merged_cases(checks, base.captured.root, type(base.captured.root).forward).statements)
    except Indistinct:
        # The calls differ only in lengths: keep the checks that all of them share.
        others = [case.body.statements for case in checks.values()]
        lines = [line for line in others[0] if all(line in each for each in others)]
    return [*guards(base.program.untaken), *(each.guard for each in refused), *lines]


def _settle_all_lengths(
    base: ModelProgram, made: Translation, run: Callable[..., BothRuns], *, check: bool
) -> tuple[Translation, list[BothRuns] | None]:
    """Settle the lengths that a translation takes in each example call, or return runs with fewer lengths free."""
    settled_cases, captured = [], list(base.cases)
    for number, called in enumerate((made, *made.others)):
        case = base.cases[number]
        recapture = partial(run, case.args, case.kwargs)
        called, fewer = _settle_lengths(case, called, recapture, check=check)
        settled_cases.append(called)
        captured[number] = fewer or case
    changed = any(one is not other for one, other in zip(captured, base.cases, strict=True))
    made = replace(settled_cases[0], others=tuple(settled_cases[1:]))
    return made, captured if changed else None


def _settle_lengths(
    captured: BothRuns, made: Translation, run: Callable[..., BothRuns], *, check: bool
) -> tuple[Translation, BothRuns | None]:
    """Settle which lengths a translation takes, or return runs with fewer lengths free, to be written again."""
    # Trying lengths does not shorten these conditions.
    fewer = without_long_conditions(captured, made.lengths.conditions, run, most=LONGEST)
    if fewer is not None or not check or made.unwritten or not made.lengths.names:
        return made, fewer
    sides = OriginalAndWritten(captured.root, made, captured.args, captured.kwargs)
    if sides.agree_at(sides.example):
        made = replace(made, lengths=settled(sides))
        return made, without_long_conditions(captured, made.lengths.conditions, run)
    # With fixed lengths it may agree: a view without a formula, or a branch that depends on the captured lengths.
    return made, with_fewer(captured, made.lengths.unguarded, run)
