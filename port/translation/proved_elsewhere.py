"""The proof at other settings: the original is constructed there, and so is what was written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from port.errors import UsageError
from port.pairs.layers.conv_transpose import output_sizes_at_calls
from port.translation.assembling import assembled
from port.translation.frontend.construction.accepted_models import constructed_by, fitted
from port.translation.frontend.construction.settings import ConfiguredModel, Setting
from port.translation.frontend.example_inputs import Given
from port.translation.frontend.meta_device import is_on_meta, on_meta_alone
from port.translation.frontend.python_random import same_numbers_afterwards
from port.translation.other_settings import OtherModel, Settings, said
from port.translation.program_settings import named_settings, settings_of
from port.translation.programs import Programmed, RunsElsewhere, constructed_at, runs_at
from port.translation.result import Translation
from port.translation.source_difference import difference
from port.translation.structure.kept_constructors import CannotKeep
from port.translation.structure.layer_stacks import CannotScan, LayerStack
from port.translation.structure.logical_axes import NO_AXES, LogicalAxes
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.remat import NO_REMAT, Remat
from port.translation.verify import Proof, prove
from port.translation.verify.generation import with_generation
from port.translation.verify.other_lengths import OriginalAndWritten
from port.translation.verify.settle_lengths import tried_lengths
from port.translation.written_elsewhere import Asked


class Elsewhere:
    """A model at other settings.

    Args:
        base: the model as it is given.
        model: the original's construction; None where it cannot be constructed anew.
        fixed: arguments of constructors that are written as their values.
        made: what was written.
        remat: whose activations are computed again.
        asked: what somebody asked for.
        stacks: the lists of layers that are one stack each.
        axes: the logical axes of its parameters.
    """

    def __init__(
        self,
        base: Programmed,
        model: ConfiguredModel | None,
        fixed: frozenset[OwnArgument],
        made: Translation,
        remat: Remat = NO_REMAT,
        asked: Sequence[Asked] = (),
        stacks: Sequence[LayerStack] = (),
        axes: LogicalAxes = NO_AXES,
    ) -> None:
        self._stacks, self._axes = stacks, axes
        self._asked = {id(each.construct): each for each in asked}
        self._base, self._model, self._fixed, self._made, self._remat = base, model, fixed, made, remat

    @property
    def original(self) -> Any:
        """The module that was translated."""
        return self._base.captured.root

    @property
    def keeps_constructors(self) -> bool:
        """Whether constructors are written as their source has them."""
        return self._base.kept is not None

    @output_sizes_at_calls()
    @same_numbers_afterwards()
    def at(self, settings: OtherModel, module: Any = None) -> Translation:
        """What is written for the original at other settings.

        Args:
            settings: that are moved; or what constructs the original with others.
            module: of the original's class, constructed with them; by default a new one.

        Raises:
            UsageError: the source does not take them, or the original does not; names what is to be done.
        """
        model = self.model(settings)
        # Nothing moved: it is what was written.
        made = self._translated(model, self._runs(model, constructed_at(model))) if settings else self._made
        if module is None:
            return made
        # Its numbers; the source is that of a new one, whatever precision this one is in.
        given = self._assembled(self._runs(model, module).programmed(self._fixed))
        return replace(made, values=given.values)

    @output_sizes_at_calls()
    @same_numbers_afterwards()
    def constructed_at(self, settings: OtherModel) -> Translation:
        """What is written for the original at other settings, of which nothing is run: its weights have shapes alone.

        Args:
            settings: that are moved; or what constructs the original with others.

        Raises:
            UsageError: the source does not take them, or the original does not; names what is to be done.
            WeightsMismatch: what the source constructs has not each of the weights, or one in another shape.
        """
        if callable(settings):
            settings = partial(on_meta_alone, settings)
        model = self.model(settings)
        made = self._translated(model, self._runs(model, constructed_at(model, on_meta=True)))
        made.check_built()
        return made

    def _runs(self, model: ConfiguredModel, module: Any) -> RunsElsewhere:
        try:
            return runs_at(model, self._base, module=module)
        except CannotKeep as error:
            raise UsageError(_UNKEPT.format(at=said(model.named), why=error)) from None

    def _translated(self, model: ConfiguredModel, runs: RunsElsewhere) -> Translation:
        try:
            there = runs.programmed(self._fixed)
        except CannotKeep as error:
            raise UsageError(_UNKEPT.format(at=said(model.named), why=error)) from None
        if line := difference(self._base.program, there.program):
            raise UsageError(
                f"at {said(model.named)} the source is another: {line}. Translate by itself the model constructed so"
            )
        return self._with_source(there)

    def _with_source(self, there: Programmed) -> Translation:
        """The model of other settings as the source of what was written makes it."""
        made = self._assembled(there)
        known = zip(made.others, self._made.others, strict=True)
        others = tuple(replace(other, source=self._source, lengths=before.lengths) for other, before in known)
        return replace(made, source=self._source, rules=self._axes.rules, lengths=self._made.lengths, others=others)

    def _assembled(self, there: Programmed) -> Translation:
        try:
            return assembled(there, remat=self._remat, stacks=self._stacks)[0]
        except CannotScan as error:
            raise UsageError(f"at other settings the layers are no stack: {error}. Translate without scan") from None

    @cached_property
    def _source(self) -> str:
        """What was written, without checks of its inputs."""
        return assembled(self._base, remat=self._remat, stacks=self._stacks, axes=self._axes)[1]()

    def proof_at(self, settings: OtherModel, module: Any = None, **options: Any) -> Proof:
        """Both sides compared at other settings.

        Args:
            settings: that are moved; or what constructs the original with others.
            module: of the original's class, constructed with them; by default a new one.
            options: of `port.translation.verify.prove`.

        Raises:
            UsageError: the source does not take them, or the original does not; names what is to be done.
        """
        return self.proof(self.model(settings), module, **options)

    def proof(self, model: ConfiguredModel, module: Any = None, **options: Any) -> Proof:
        """Both sides compared as a model is constructed elsewhere; of one on the meta device shapes alone are."""
        known = next((each.runs for each in self._asked.values() if each.model is model), None)
        if module is None and known is not None:
            module, runs = known.cases[0].module, known
        else:
            module = constructed_at(model) if module is None else module
            runs = self._runs(model, module)
        made = self._translated(model, runs)
        if is_on_meta(module):
            made.check_built()
            return Proof((), remarks=(_ON_SHAPES,))
        if is_on_meta(self.original):  # of which nothing could be run
            made = _at_other_lengths(module, made, model.calls)
        return proved(module, made, model.calls, **options)

    @output_sizes_at_calls()
    @same_numbers_afterwards()
    def proof_around(self, model: ConfiguredModel) -> Proof:
        """Both sides compared as a model is constructed elsewhere, whatever would be written for that one alone.

        Raises:
            CannotKeep: the constructors cannot be written there as their source has them.
            PortError: it cannot be translated there.
        """
        module = constructed_at(model)
        made = self._with_source(runs_at(model, self._base, module=module).programmed(self._fixed))
        others = [replace(each, lengths=replace(each.lengths, tried=())) for each in (made, *made.others)]
        return proved(module, replace(others[0], others=tuple(others[1:])), model.calls)

    def model(self, settings: OtherModel) -> ConfiguredModel:
        """The original's construction at other settings.

        Args:
            settings: that are moved; or what constructs the original with others.

        Raises:
            UsageError: the source does not take them, or the original does not.
        """
        root = self._base.captured.root
        if self._model is None:
            raise UsageError(
                f"{type(root).__qualname__} cannot be constructed at other settings: say how it is constructed, "
                "construct=lambda: …"
            )
        if callable(settings):
            asked = self._asked.get(id(settings))
            return other_model(self._model, settings) if asked is None else asked.model
        try:
            known = named_settings(self._base.program, settings)
        except KeyError as error:
            why = self._made.settings.why_fixed(error.args[0])
            raise UsageError(
                f"what was written for {type(root).__qualname__} has no argument {error.args[0]!r}"
                + (f": {why}" if why else f"; it has {_names(self._base)}")
            ) from None
        moves: dict[Setting, Any] = {known[name]: value for name, value in settings.items()}
        try:
            return fitted(self._model, moves)
        except Exception as error:
            raise UsageError(f"the original refuses {said(settings)}: {type(error).__name__}: {error}") from error


_ON_SHAPES = "constructed on shapes alone: the same source, with a place for each weight; nothing was run"
_UNKEPT = (
    "at {at} the constructors cannot be written as their source has them: {why}. Translate by itself the model "
    "constructed so"
)


def other_model(model: ConfiguredModel, construct: Callable[[], Any]) -> ConfiguredModel:
    """The original as somebody constructs it otherwise.

    Raises:
        UsageError: it refuses the inputs, or is another model each time.
    """
    try:
        return constructed_by(model, construct)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"the other original refuses the example inputs, or cannot be constructed anew: {why}"
        ) from error


def _names(base: Programmed) -> str:
    return ", ".join(".".join(setting) for setting in settings_of(base.program)) or "none"


def _at_other_lengths(module: Any, made: Translation, calls: Sequence[Given]) -> Translation:
    """What is written for a module, with lengths at which both are compared beside the example's."""
    cases = [
        replace(case, lengths=tried_lengths(OriginalAndWritten(module, case, args, kwargs)))
        for case, (args, kwargs) in zip((made, *made.others), calls, strict=True)
    ]
    return replace(cases[0], others=tuple(cases[1:]))


def proved(module: Any, made: Translation, calls: Sequence[Given], **options: Any) -> Proof:
    """Both sides compared in each example call, as one proof."""
    proofs = [
        prove(module, case, args, kwargs, **options)
        for case, (args, kwargs) in zip((made, *made.others), calls, strict=True)
    ]
    proof = proofs[0]
    for number, other in enumerate(proofs[1:], start=2):
        proof = with_proof(proof, other, f"in example call {number}")
    return with_generation(proof, module, made)


def joined(proof: Proof, elsewhere: Sequence[tuple[Settings, Proof]]) -> Proof:
    """A proof, and those at other settings, as one.

    A model without numbers has no proof of its own: then it is that at other settings.
    """
    made = proof
    for settings, other in elsewhere:
        at = f"with {said(settings) or 'the settings of its own'}"
        if not other.rows and not other.failed and not other.unjudged:
            made = replace(made, remarks=(*made.remarks, *(f"{at}: {remark}" for remark in other.remarks)))
        elif not made.rows and made.unjudged:
            rows = tuple(replace(row, what=f"{row.what} {at}") for row in other.rows)
            remarks = tuple(f"{at}: {remark}" for remark in other.remarks)
            made = replace(other, rows=rows, remarks=(made.unjudged, *remarks), lengths=f"{other.lengths}, {at}")
        else:
            made = with_proof(made, other, at)
    return made


def with_proof(proof: Proof, other: Proof, where: str) -> Proof:
    """A proof, and another of the same source, as one.

    Args:
        proof: of the source.
        other: of it elsewhere.
        where: that is.
    """
    return replace(
        proof,
        rows=(*proof.rows, *(replace(row, what=f"{row.what} {where}") for row in other.rows)),
        failed=proof.failed or (other.failed and f"{where}: {other.failed}"),
        unjudged=proof.unjudged or (other.unjudged and f"{where}: {other.unjudged}"),
        remarks=(*proof.remarks, *(f"{where}: {remark}" for remark in other.remarks)),
        explanation=proof.explanation if proof.explanation.lines else other.explanation,
    )
