"""Which arguments of constructors hold, and whether constructors are written as their source has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from port.translation.borne_out import BorneOut, borne_out, with_fixed
from port.translation.both_modes import BothRuns
from port.translation.frontend.construction import Construction
from port.translation.frontend.construction.arguments import is_configuration
from port.translation.frontend.construction.constructed_values import with_constructed_values
from port.translation.frontend.construction.construction_calls import ConstructionCalls
from port.translation.frontend.construction.settings import Setting, Sized, sized
from port.translation.frontend.construction.taken_models import fitted, modules_of
from port.translation.other_settings import CONSTRUCTED_OTHERWISE, NOT_CONSTRUCTED, OtherModel, OtherSettings
from port.translation.part_alone import part_alone
from port.translation.program_settings import named_settings
from port.translation.programs import Programmed, calls_of, programmed
from port.translation.proved_elsewhere import other_model
from port.translation.structure.ctor_args import parameters
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.program import Program
from port.translation.written_elsewhere import Asked, asked_for, is_built, with_asked, written_at

if TYPE_CHECKING:
    pass
from port.translation.wanted import CapturedModel, Wanted


@dataclass(frozen=True)
class HeldArguments:
    """Which arguments of constructors hold, and what was translated to find it out.

    Attributes:
        borne: the arguments.
        model: how the original is constructed at other settings; None where it cannot be.
        kept: the calls of its constructors, if these are written as their source has them.
        asked: the original as somebody constructs it otherwise.
        program: with all arguments; None where nothing was tried.
    """

    borne: BorneOut
    model: Sized | None = None
    kept: ConstructionCalls | None = None
    asked: Sequence[Asked] = ()
    program: Program | None = None

    def without(self, wrong: Mapping[Setting, str]) -> HeldArguments:
        """The same with settings that were seen not to hold, by why they do not."""
        if self.program is None:
            return self
        return replace(self, borne=with_fixed(self.borne, self.program, wrong))


def held_arguments(original: CapturedModel, wanted: Wanted, *, keeps: bool) -> HeldArguments:
    """Find out which arguments of constructors hold.

    Args:
        original: the model.
        wanted: of its translation.
        keeps: whether constructors may be written as their source has them.
    """
    captured, root = original.captured, original.root
    cls: Any = type(root)
    if original.construction is None:
        unknown = original.unknown or (CONSTRUCTED_OTHERWISE if original.construct is not None else NOT_CONSTRUCTED)
        has_arguments = wanted.check and bool(parameters(cls))
        return HeldArguments(BorneOut(settings=OtherSettings(unknown=unknown)) if has_arguments else BorneOut())
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
    near = None if model is None else _near(whole, model, asked, wanted.at)
    # Constructors that are written as their source has them need nothing that bears them out.
    alone = partial(_alone, captured[0], original.construction) if whole.kept is None else None
    shown = [(each.model, each.program) for each in asked if each.program is not None]

    def written(other: Sized) -> Program | None:
        known = next((made for one, made in shown if one is other), None)
        return written_at(other, whole) if known is None else known

    borne = borne_out(whole.program, model, written, alone=alone, steps=steps, near=near, asked=shown)
    return HeldArguments(borne, model, whole.kept, asked, whole.program)


def _alone(
    captured: BothRuns, construction: Construction, path: str
) -> tuple[Program, Sized, Callable[[Sized], Program | None]] | None:
    """A part of the model by itself."""
    found = part_alone(path, captured, construction)
    if found is None:
        return None
    return found.programmed.program, found.model, partial(written_at, base=found.programmed)


def _near(whole: Programmed, model: Sized, asked: Sequence[Asked], at: Sequence[OtherModel]) -> Sized | None:
    """The smallest of the other sizes at which a model is to be proved, where the model itself is large."""
    there = [each.model for each in asked]
    for settings in (each for each in at if not callable(each)):
        try:
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
