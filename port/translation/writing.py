"""A model's runs as a translation: the source, with the arguments of constructors that hold, and its proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from port.errors import UsageError
from port.translation.assembling import assembled, packaged
from port.translation.borne_out import BorneOut, borne_out, named_settings, settings_of, with_fixed
from port.translation.both_modes import BothRuns
from port.translation.codegen.emit import formatted
from port.translation.codegen.length_checks import expectations
from port.translation.codegen.vendor import with_own_copies
from port.translation.free_dimensions import (
    with_fewer,
    without_long_conditions,
)
from port.translation.frontend.construction import Construction
from port.translation.frontend.construction.arguments import is_configuration
from port.translation.frontend.construction.constructed_values import with_constructed_values
from port.translation.frontend.construction.construction_calls import ConstructionCalls
from port.translation.frontend.construction.settings import (
    Setting,
    Sized,
    constructed_by,
    fitted,
    modules_of,
    sized,
)
from port.translation.frontend.long_formulas import LONGEST
from port.translation.frontend.meta_device import WITHOUT_WEIGHTS, check_all_found, is_on_meta
from port.translation.ir import syntax
from port.translation.other_settings import CONSTRUCTED_OTHERWISE, NOT_CONSTRUCTED, OtherModel, OtherSettings
from port.translation.part_alone import part_alone
from port.translation.programs import Programmed, calls_of, programmed
from port.translation.proved_around import proved_around
from port.translation.proved_elsewhere import Elsewhere, joined, other_model, proved
from port.translation.result import Translation
from port.translation.structure.body import Body
from port.translation.structure.case_merge import Indistinct, merged_cases
from port.translation.structure.cases import CaseBody
from port.translation.structure.ctor_args import parameters
from port.translation.structure.entangled import Entangled
from port.translation.structure.init_inference import Seen
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.program import Program
from port.translation.structure.untaken import guards
from port.translation.verify import OriginalAndWritten, Proof, settled
from port.translation.verify.combinations import refused_combinations
from port.translation.written_elsewhere import Asked, asked_for, is_built, with_asked, written_at

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CapturedModel:
    """The model that is translated.

    Attributes:
        captured: the runs of each example call.
        run: captures one with other lengths free, given the call's arguments.
        seen: how parameters and buffers start.
        construction: how it is constructed, if that is known.
        construct: constructs it, where somebody said how.
        unknown: why it cannot be constructed as somebody said; empty if it can.
    """

    captured: Sequence[BothRuns]
    run: Callable[..., BothRuns]
    seen: Seen
    construction: Construction | None
    construct: Callable[[], Any] | None
    unknown: str = ""

    @property
    def root(self) -> torch.nn.Module:
        """The module."""
        return self.captured[0].root


@dataclass(frozen=True)
class Wanted:
    """What is asked of a translation: the arguments of `port.translate` by their names."""

    name: str | None
    check: bool
    remat: Sequence[str] | str
    standalone: bool
    package: bool
    at: Sequence[OtherModel]
    time_limit: float
    sizes_limit: float
    tell: Callable[[str], Any] | None


def written(
    original: CapturedModel, wanted: Wanted, *, keeps: bool = True, wrong: Mapping[Setting, str] | None = None
) -> tuple[Translation, bool]:
    """The translation of a model, and whether its constructors are written as their source has them.

    Args:
        original: the model.
        wanted: of its translation.
        keeps: whether constructors may be written so.
        wrong: arguments with others of which what was written was another model → how; they are written as their
            values.

    Raises:
        UsageError: two example calls that no argument tells apart; in ``at``, what the original or the source does not
            take.
    """
    root, check, remat = original.root, wanted.check, wanted.remat
    without_weights = is_on_meta(root)
    with _told_apart(root):
        borne, model, kept, asked = _borne(original, wanted, keeps=keeps, wrong=wrong or {})
        settles = check and not without_weights
        said, made, source = _said(
            original, borne.fixed, kept=kept, asked=asked, name=wanted.name, remat=remat, settles=settles
        )
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
    elsewhere = Elsewhere(said, model, borne.fixed, made, remat, asked)
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
                refuted = {**(wrong or {}), around.wrong.moved[-1]: around.wrong.sentence}
                return written(original, wanted, keeps=keeps, wrong=refuted)
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


def _borne(
    original: CapturedModel, wanted: Wanted, *, keeps: bool, wrong: Mapping[Setting, str]
) -> tuple[BorneOut, Sized | None, ConstructionCalls | None, list[Asked]]:
    """Which arguments of constructors hold; how the original is constructed at other settings, if it can be; the calls
    of its constructors, if these are written as their source has them; and what somebody asked for."""
    captured, root = original.captured, original.root
    cls: Any = type(root)
    if original.construction is None:
        unknown = original.unknown or (CONSTRUCTED_OTHERWISE if original.construct is not None else NOT_CONSTRUCTED)
        has_arguments = wanted.check and bool(parameters(cls))
        return BorneOut(settings=OtherSettings(unknown=unknown)) if has_arguments else BorneOut(), None, None, []
    model = sized(original.construction, root, [(case.args, case.kwargs) for case in captured])
    if model is not None and original.construct is not None:
        model = replace(model, given=with_constructed_values(model.given, original.construct))
    program = partial(
        programmed, captured, original.run, original.seen, original.construction, remat=bool(wanted.remat)
    )
    whole = _whole(captured, program, model if keeps else None) or program()
    asked = []
    if model is not None:
        asked = [asked_for(each, other_model(model, each), whole) for each in wanted.at if callable(each)]
        whole = with_asked(whole, asked)
    steps = sum(len(case.graphs[True].steps) for case in captured)
    near = None if model is None else _near(whole, model, wanted.at)
    # Constructors that are written as their source has them need nothing that bears them out.
    alone = partial(_alone, captured[0], original.construction) if whole.kept is None else None
    shown = [(each.model, each.program) for each in asked if each.program is not None]
    borne = borne_out(
        whole.program, model, partial(written_at, base=whole), alone=alone, steps=steps, near=near, asked=shown
    )
    return with_fixed(borne, whole.program, wrong), model, whole.kept, asked


def _alone(
    captured: BothRuns, construction: Construction, path: str
) -> tuple[Program, Sized, Callable[[Sized], Program | None]] | None:
    """A part of the model by itself."""
    found = part_alone(path, captured, construction)
    if found is None:
        return None
    return found.programmed.program, found.model, partial(written_at, base=found.programmed)


def _near(whole: Programmed, model: Sized, at: Sequence[OtherModel]) -> Sized | None:
    """The smallest of the other sizes at which a model is to be proved, where the model itself is large."""
    there = []
    for settings in at:
        try:
            if callable(settings):
                there.append(constructed_by(model, settings))
            else:
                names = named_settings(whole.program, settings)
                there.append(fitted(model, {names[name]: value for name, value in settings.items()}))
        except Exception:  # of a name, or of the original's own: it is told where it is proved
            continue
    near = min(there, key=modules_of, default=None)
    return near if near is not None and 2 * modules_of(near) <= modules_of(model) else None


def _whole(captured: Sequence[BothRuns], program: Callable[..., Programmed], model: Sized | None) -> Programmed | None:
    """The program with all arguments and the constructors as their source has them; None where it cannot be."""
    if model is None or any(map(is_configuration, model.given.values())):
        return None  # of a configuration the fields are written that are read
    try:
        whole = program(kept=calls_of(captured[0], model))
    except CannotKeep:
        return None
    return whole if is_built(whole) else None


def _said(
    original: CapturedModel,
    fixed: frozenset[OwnArgument],
    *,
    kept: ConstructionCalls | None,
    asked: Sequence[Asked],
    name: str | None,
    remat: Sequence[str] | str,
    settles: bool,
) -> tuple[Programmed, Translation, Callable[..., str]]:
    """The program, its translation and what writes its source, with as many free lengths as hold."""
    captured, run = original.captured, original.run
    while True:
        said = programmed(captured, run, original.seen, original.construction, fixed, remat=bool(remat), kept=kept)
        said = with_asked(said, asked, fixed)
        made, source = assembled(said, name=name, remat=remat)
        made, fewer = _settle_all_lengths(said, made, run, check=settles)
        if fewer is None:
            return said, made, source
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
        lines = list(merged_cases(checks, said.captured.root).statements)
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
