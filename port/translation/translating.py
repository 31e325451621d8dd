"""`port.translate`: from a torch module and example inputs to its Flax source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from port.errors import UsageError
from port.judging.limits import TIME_LIMIT
from port.pairs.layers.conv_transpose import output_sizes_at_calls
from port.parity.sides.duration import time_limit_of
from port.translation.assembling import assembled, packaged
from port.translation.borne_out import BorneOut, borne_out
from port.translation.both_modes import BothRuns, both_runs
from port.translation.codegen.emit import formatted
from port.translation.codegen.length_checks import expectations
from port.translation.codegen.vendor import with_own_copies
from port.translation.free_dimensions import (
    captured_with_free_lengths,
    with_fewer,
    without_long_conditions,
)
from port.translation.frontend.construction import Construction, constructed
from port.translation.frontend.construction.construction_calls import ConstructionCalls, takes_classes
from port.translation.frontend.construction.settings import Sized, sized
from port.translation.frontend.example_inputs import Given, arguments, check_objects
from port.translation.frontend.long_formulas import LONGEST
from port.translation.frontend.meta_device import WITHOUT_WEIGHTS, check_all_found, is_on_meta
from port.translation.frontend.python_random import same_numbers_afterwards
from port.translation.frontend.single_layer import as_root
from port.translation.ir import syntax
from port.translation.other_settings import CONSTRUCTED_OTHERWISE, NOT_CONSTRUCTED, OtherSettings, Settings
from port.translation.programs import Programmed, calls_of, programmed
from port.translation.proved_elsewhere import Elsewhere, joined, proved
from port.translation.result import Translation
from port.translation.structure.body import Body
from port.translation.structure.case_merge import Indistinct, merged_cases
from port.translation.structure.cases import CaseBody
from port.translation.structure.ctor_args import parameters
from port.translation.structure.entangled import Entangled
from port.translation.structure.init_inference import Seen, watched
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.untaken import guards
from port.translation.verify import OriginalAndWritten, Proof, settled
from port.translation.verify.combinations import refused_combinations
from port.translation.written_elsewhere import written_at

if TYPE_CHECKING:
    import torch


@output_sizes_at_calls()
@same_numbers_afterwards()
def translate(
    module: torch.nn.Module,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    *,
    cases: Sequence[Any] = (),
    name: str | None = None,
    static: bool = False,
    check: bool = True,
    construct: Callable[[], torch.nn.Module] | None = None,
    remat: Sequence[str] | str = (),
    standalone: bool = False,
    package: bool = False,
    at: Settings | Sequence[Settings] = (),
    time_limit: float = TIME_LIMIT,
    tell: Callable[[str], Any] | None = None,
) -> Translation:
    """Write the Flax module that a person would have written, and prove that it is the same.

    Parameters that torch does not train (``requires_grad=False``) are `port.nn.Frozen`, which ``nnx.Param`` leaves out.

    Args:
        module: of PyTorch; it stays as it is. One on the meta device is written without its weights, and not proved.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: those given by name.
        cases: in their place, several example calls, ``[(x,), {"x": x, "mask": mask}]``: of each a tuple of positional
            arguments, a dict of those by name, or a pair of both. What only some do stands behind a condition on the
            arguments that tell them apart, the original's own where it has one.
        name: of the file that the source is for; by default the class's, in lower case.
        static: whether all lengths of the inputs are fixed at the example's. By default those stay free that the
            original takes others for, which is found out by running it. What is fixed is checked where it comes in.
        construct: makes the module anew, as its user does (``lambda: Net(width=64)``). It is watched, twice, and a
            new written module starts as what it makes. Without it, a class whose constructor takes no arguments is
            constructed so; otherwise layers start as torch's own do, and a parameter or a buffer of a class of one's
            own raises `NoInitialValue` in a new module, which `load` fills. The module's own values are never looked
            at for this: they may be a checkpoint's.
        check: whether both sides are compared in float64: outputs, gradients, buffers; and whether the arguments of
            constructors are borne out. Without it constructors take none, but where instances of a class differ.
        remat: names of the original's classes whose activations are computed again in the backward pass
            (``nnx.remat``, gradient checkpointing): less memory for one more forward pass of them.
        standalone: whether what the source takes from ``port`` is copied into it, so that it needs only JAX, Flax,
            safetensors and numpy.
        package: whether the source is a package as well, ``package.files``: a file for each file of the original's that
            defines something of it, with the same names in the same places. It is what is compared then.
        at: other settings of the original's constructor, ``{"depth": 4, "width": 48}``, or several: both sides are
            constructed with them, and compared as well. So a model on the meta device is proved at a size that fits.
        time_limit: seconds that comparing both sides may take, as estimated beforehand; what would take longer is
            compared at smaller lengths, or not at all, and the proof says so.
        tell: is told beforehand how long that takes, if it is long.

    Returns:
        the source, the module with its weights, the mapping, the notes and the proof.

    Raises:
        UsageError: no module, or inputs that it does not take; one whose copy computes something else, or that hides a
            method of ``torch.nn.Module``; in ``cases``, two that no argument tells apart; in ``remat``, no class that
            is written; in ``at``, what the original refuses, or the source does not take.
        NoPair: a module that torch.export cannot capture; one that computes with state that is neither a parameter nor
            a buffer, as layers in a plain list are; says where and what to do.
    """
    time_limit = time_limit_of(time_limit)
    calls = _calls(args, kwargs, cases)
    if len(calls) > 1 and hasattr(module, "forward"):
        check_objects(module, calls)
    run = partial(both_runs, module, remat=bool(remat), check=check)
    captured = [_captured(partial(run, *call), static=static) for call in calls]
    root = captured[0].root
    without_weights = is_on_meta(module)
    made_anew = None if construct is None else lambda: as_root(construct())
    seen = watched(root, made_anew)
    construction = constructed(root, made_anew) if check else None
    options: dict[str, Any] = {"seen": seen, "construction": construction, "remat": remat}
    with _told_apart(root):
        borne, model, kept = _borne(captured, run, is_told=construct is not None, check=check, **options)
        settles = check and not without_weights
        said, made, source = _said(captured, run, borne.fixed, kept=kept, name=name, settles=settles, **options)
    if without_weights:
        check_all_found(root, made.without_start)
    given = [(case.args, case.kwargs) for case in said.cases]
    is_run = check and not without_weights and not made.unwritten
    refused = refused_combinations(root, (made, *made.others), given, check=is_run)
    made = replace(made, untaken=(*made.untaken, *map(str, refused)))
    text = source(checks=_checks(said, made, borne, refused))
    made = replace(made, source=formatted(with_own_copies(text)) if standalone else text, standalone=standalone)
    made = replace(made, settings=borne.settings)
    if package:
        made = replace(made, package=packaged(made, said.captured, name=name))
    others = (replace(other, source=made.source, package=made.package) for other in made.others)
    made = replace(made, others=tuple(others))
    if not check or made.unwritten:
        return made
    elsewhere = Elsewhere(said, model, borne.fixed, made, remat)
    there = [elsewhere.model(each) for each in ([at] if isinstance(at, Mapping) else at)]  # refused before all else
    if without_weights:
        proof = Proof((), unjudged=WITHOUT_WEIGHTS)
    else:
        proof = proved(root, made, given, time_limit=time_limit, tell=tell)
    proofs = [(model.named, elsewhere.proof(model, time_limit=time_limit)) for model in there]
    return replace(made, proof=joined(proof, proofs), elsewhere=elsewhere.at)


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
    captured: Sequence[BothRuns],
    run: Callable[..., BothRuns],
    *,
    seen: Seen,
    construction: Construction | None,
    remat: Sequence[str] | str,
    is_told: bool,
    check: bool,
) -> tuple[BorneOut, Sized | None, ConstructionCalls | None]:
    """Which arguments of constructors hold; how the original is constructed at other settings, if it can be; and the
    calls of its constructors, if these are written as their source has them."""
    root = captured[0].root
    cls: Any = type(root)
    if construction is None:
        unknown = CONSTRUCTED_OTHERWISE if is_told else NOT_CONSTRUCTED
        has_arguments = check and bool(parameters(cls))
        return BorneOut(settings=OtherSettings(unknown=unknown)) if has_arguments else BorneOut(), None, None
    model = sized(construction, root, [(case.args, case.kwargs) for case in captured])
    whole = _whole(captured, partial(programmed, captured, run, seen, construction, remat=bool(remat)), model)
    steps = sum(len(case.graphs[True].steps) for case in captured)
    borne = borne_out(whole.program, model, partial(written_at, base=whole), steps=steps)
    return borne, model, whole.kept


def _whole(captured: Sequence[BothRuns], program: Callable[..., Programmed], model: Sized | None) -> Programmed:
    """The program with all arguments; where it is given classes, with the constructors as their source has them."""
    if model is not None and takes_classes(model.given):
        try:
            return program(kept=calls_of(captured[0], model.construct))
        except CannotKeep:
            pass
    return program()


def _said(
    captured: Sequence[BothRuns],
    run: Callable[..., BothRuns],
    fixed: frozenset[OwnArgument],
    *,
    seen: Seen,
    construction: Construction | None,
    remat: Sequence[str] | str,
    kept: ConstructionCalls | None,
    name: str | None,
    settles: bool,
) -> tuple[Programmed, Translation, Callable[..., str]]:
    """The program, its translation and what writes its source, with as many free lengths as hold."""
    while True:
        said = programmed(captured, run, seen, construction, fixed, remat=bool(remat), kept=kept)
        made, source = assembled(said, name=name, remat=remat)
        made, fewer = _settle_all_lengths(said, made, run, check=settles)
        if fewer is None:
            return said, made, source
        captured = fewer


def _calls(args: Any, kwargs: dict[str, Any] | None, cases: Sequence[Any]) -> list[Given]:
    """The example calls.

    Raises:
        UsageError: some are given in both ways.
    """
    if not cases:
        return [(tuple(args) if isinstance(args, tuple | list) else (args,), dict(kwargs or {}))]
    if kwargs or not (isinstance(args, tuple | list) and not args):
        raise UsageError("example inputs are given as args and kwargs, or as cases: not both")
    return [arguments(case) for case in cases]


def _captured(run: Callable[..., BothRuns], *, static: bool) -> BothRuns:
    return run(free=()) if static else captured_with_free_lengths(run)


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
