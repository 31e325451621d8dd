"""A model's runs as a translation: the source, with the arguments of constructors that hold, and its proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from port.errors import UsageError
from port.translation.assembling import assembled, packaged
from port.translation.axes.finding import logical_axes_of
from port.translation.borne_out import BorneOut
from port.translation.both_modes import BothRuns
from port.translation.codegen.emit import formatted
from port.translation.codegen.length_checks import expectations
from port.translation.codegen.vendor import with_own_copies
from port.translation.free_dimensions import (
    with_fewer,
    without_long_conditions,
)
from port.translation.frontend.construction.construction_calls import ConstructionCalls
from port.translation.frontend.construction.settings import Setting, Sized
from port.translation.frontend.long_formulas import LONGEST
from port.translation.frontend.meta_device import WITHOUT_WEIGHTS, check_all_found, is_on_meta
from port.translation.held_arguments import HeldArguments, held_arguments
from port.translation.ir import syntax
from port.translation.program_settings import settings_of
from port.translation.programs import Programmed, programmed
from port.translation.proved_around import proved_around
from port.translation.proved_elsewhere import Elsewhere, joined, proved
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
from port.translation.wanted import CapturedModel, Wanted
from port.translation.written_elsewhere import Asked, with_asked

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Shape:
    """How a program is written: what of it is stacked, and what its axes are called."""

    stacks: tuple[LayerStack, ...]
    axes: LogicalAxes


def written(
    original: CapturedModel, wanted: Wanted, *, keeps: bool = True, held: HeldArguments | None = None
) -> tuple[Translation, bool]:
    """The translation of a model, and whether its constructors are written as their source has them.

    Args:
        original: the model.
        wanted: of its translation.
        keeps: whether constructors may be written so.
        held: which arguments of constructors hold; by default that is found out.

    Raises:
        UsageError: two example calls that no argument tells apart; in ``at``, what the original or the source does not
            take.
    """
    root, check, remat = original.root, wanted.check, wanted.remat
    without_weights = is_on_meta(root)
    with _told_apart(root):
        held = held_arguments(original, wanted, keeps=keeps) if held is None else held
        borne, model, kept, asked = held.borne, held.model, held.kept, held.asked
        settles = check and not without_weights
        said, made, source, shape = _said(original, wanted, borne.fixed, kept=kept, asked=asked, settles=settles)
    if without_weights:
        check_all_found(root, made.without_start)
    given = [(case.args, case.kwargs) for case in said.cases]
    is_run = check and not without_weights and not made.unwritten
    refused = refused_combinations(root, (made, *made.others), given, check=is_run)
    made = replace(made, untaken=(*made.untaken, *map(str, refused)))
    text = source(checks=_checks(said, made, borne, refused))
    whole = formatted(with_own_copies(text)) if wanted.standalone else text
    made = replace(made, source=whole, standalone=wanted.standalone, settings=borne.settings)
    if wanted.package:
        made = replace(made, package=packaged(made, said.captured, name=wanted.name))
    others = (replace(other, source=made.source, package=made.package) for other in made.others)
    made = replace(made, others=tuple(others))
    if not check or made.unwritten:
        return made, kept is not None
    elsewhere = Elsewhere(said, model, borne.fixed, made, remat, asked, shape.stacks, shape.axes)
    there = [elsewhere.model(each) for each in wanted.at]  # refused before all else
    if without_weights:
        proof = Proof((), unjudged=WITHOUT_WEIGHTS)
    else:
        start = time.monotonic()
        proof = proved(root, made, given, time_limit=wanted.time_limit, tell=wanted.tell)
        if proof.agrees and model is not None and wanted.sizes_limit:
            settings = _free(said.program, model, borne)
            times = {"limit": wanted.sizes_limit, "expected": time.monotonic() - start}
            around = proved_around(elsewhere, model, settings, **times, tell=wanted.tell)
            if around.wrong is not None:
                # Of two that were moved together the second: each by itself was the same.
                refuted = held.without({around.wrong.moved[-1]: around.wrong.sentence})
                return written(original, wanted, keeps=keeps, held=refuted)
            made = replace(made, settings=replace(borne.settings, sizes=around))
            proof = replace(proof, sizes=made.settings.sentence)
    proofs = [(model.named, elsewhere.proof(model, time_limit=wanted.time_limit)) for model in there]
    return replace(made, proof=joined(proof, proofs), elsewhere=elsewhere), kept is not None


def _free(program: Program, model: Sized, borne: BorneOut) -> list[Setting]:
    """The settings of the root that what was written takes other values of."""
    there = model.settings()
    return [each for each, own in settings_of(program).items() if each in there and own not in borne.fixed]


@contextmanager
def _told_apart(root: Any) -> Iterator[None]:
    """Within it, example calls that no argument tells apart are an error for the user.

    Raises:
        UsageError: there are some; says which line differs, and what decides it.
    """
    try:
        yield
    except Indistinct as error:
        one, other = (case + 1 for case in error.cases)
        raise UsageError(
            f"the arguments of {type(root).__qualname__} do not tell example call {one} from {other}: only one of them "
            f"does `{error.statement}`; what decides it is {error.decides or 'none of the arguments of forward'}. Make "
            "it an argument, or translate each call by itself"
        ) from None


def _said(
    original: CapturedModel,
    wanted: Wanted,
    fixed: frozenset[OwnArgument],
    *,
    kept: ConstructionCalls | None,
    asked: Sequence[Asked],
    settles: bool,
) -> tuple[Programmed, Translation, Callable[..., str], Shape]:
    """The program, its translation, what writes its source, and how; with as many free lengths as hold."""
    captured, run, remat = original.captured, original.run, wanted.remat
    while True:
        said = programmed(captured, run, original.seen, original.construction, fixed, remat=bool(remat), kept=kept)
        said = with_asked(said, asked, fixed)
        stacking = stacking_of(said, remat) if wanted.scan else NO_STACKS
        made, source = assembled(said, name=wanted.name, remat=remat, stacks=stacking.stacks)
        axes = NO_AXES
        if wanted.logical_axes and not made.unwritten:
            axes = logical_axes_of(made, (said.captured.args, said.captured.kwargs))
            made, source = assembled(said, name=wanted.name, remat=remat, stacks=stacking.stacks, axes=axes)
        made, fewer = _settle_all_lengths(said, made, run, check=settles)
        if fewer is None:
            return said, replace(made, apart=stacking.apart), source, Shape(stacking.stacks, axes)
        captured = fewer


def _checks(said: Programmed, made: Translation, borne: BorneOut, refused: Sequence[Entangled]) -> list[syntax.Stmt]:
    """The statements at the head of the root's call: what they refuse was not translated."""
    checks = {}
    for number, (case, called) in enumerate(zip(said.cases, (made, *made.others), strict=True)):
        lowered = case.runs[True]
        expected = called.lengths.with_names(borne.resized)
        lines = expectations(lowered.graph, lowered.layouts, expected, list(made.boundary.parameters))
        checks[number] = CaseBody(Body((), tuple(lines), None), said.program.held[number])
    try:
        lines = list(merged_cases(checks, said.captured.root, type(said.captured.root).forward).statements)
    except Indistinct:
        # Calls that differ in lengths alone: what all of them keep.
        others = [case.body.statements for case in checks.values()]
        lines = [line for line in others[0] if all(line in each for each in others)]
    return [*guards(said.program.untaken), *(each.guard for each in refused), *lines]


def _settle_all_lengths(
    said: Programmed, made: Translation, run: Callable[..., BothRuns], *, check: bool
) -> tuple[Translation, list[BothRuns] | None]:
    """Settle the lengths that a translation takes in each example call; or give the runs with fewer free."""
    settled_cases, captured = [], list(said.cases)
    for number, called in enumerate((made, *made.others)):
        case = said.cases[number]
        again = partial(run, case.args, case.kwargs)
        called, fewer = _settle_lengths(case, called, again, check=check)
        settled_cases.append(called)
        captured[number] = fewer or case
    changed = any(one is not other for one, other in zip(captured, said.cases, strict=True))
    made = replace(settled_cases[0], others=tuple(settled_cases[1:]))
    return made, captured if changed else None


def _settle_lengths(
    captured: BothRuns, made: Translation, run: Callable[..., BothRuns], *, check: bool
) -> tuple[Translation, BothRuns | None]:
    """Settle which lengths a translation takes; or give the runs with fewer free, of which it is to be written anew."""
    # Nothing that is tried makes these short.
    fewer = without_long_conditions(captured, made.lengths.conditions, run, most=LONGEST)
    if fewer is not None or not check or made.unwritten or not made.lengths.names:
        return made, fewer
    sides = OriginalAndWritten(captured.root, made, captured.args, captured.kwargs)
    if sides.agree_at(sides.example):
        made = replace(made, lengths=settled(sides))
        return made, without_long_conditions(captured, made.lengths.conditions, run)
    # With numbers it may be right: a view that no formula says, a branch at the lengths that were captured.
    return made, with_fewer(captured, made.lengths.unguarded, run)
