"""Translate and prove a model at other settings: construct the original and the written module there, and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from port.errors import UsageError
from port.pairs.layers.conv_transpose import output_sizes_at_calls
from port.translation.assembling import assembled
from port.translation.frontend.construction.accepted_models import constructed_by, with_user_settings
from port.translation.frontend.construction.settings import ConfiguredModel, Setting
from port.translation.frontend.example_inputs import Given
from port.translation.frontend.meta_device import built_on_meta, is_on_meta
from port.translation.frontend.python_random import same_numbers_afterwards
from port.translation.other_settings import OtherModel, Settings, settings_text
from port.translation.program_settings import named_settings, settings_of
from port.translation.programs import ModelProgram, RunsElsewhere, constructed_at, runs_at
from port.translation.requested_models import RequestedModel
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


class ModelAtOtherSettings:
    """A translated model at other settings of its constructor.

    Args:
        base: the model's program.
        model: the original at its own settings; None where it cannot be reconstructed.
        fixed: constructor arguments that are written as their values.
        made: the translation.
        remat: the classes whose activations are recomputed in the backward pass.
        requested: the models that the user requested.
        stacks: the lists of layers that are one stack each.
        axes: the logical axes of the parameters.
    """

    def __init__(
        self,
        base: ModelProgram,
        model: ConfiguredModel | None,
        fixed: frozenset[OwnArgument],
        made: Translation,
        remat: Remat = NO_REMAT,
        requested: Sequence[RequestedModel] = (),
        stacks: Sequence[LayerStack] = (),
        axes: LogicalAxes = NO_AXES,
    ) -> None:
        self._stacks, self._axes = stacks, axes
        self._requested = {id(each.construct): each for each in requested}
        self._base, self._model, self._fixed, self._made, self._remat = base, model, fixed, made, remat

    @property
    def original(self) -> Any:
        """The module that was translated."""
        return self._base.captured.root

    @property
    def keeps_constructors(self) -> bool:
        """Whether the original's constructors are kept."""
        return self._base.kept is not None

    @output_sizes_at_calls()
    @same_numbers_afterwards()
    def at(self, settings: OtherModel, module: Any = None) -> Translation:
        """Return the translation at other settings.

        Args:
            settings: the settings to change, or a function that constructs the original with others.
            module: a module of the original's class with these settings; by default a new one is constructed.

        Raises:
            UsageError: the source or the original does not take these settings; says what to do.
        """
        model = self.model(settings)
        # Without changes it is the translation itself.
        made = self._translated(model, self._runs(model, constructed_at(model))) if settings else self._made
        if module is None:
            return made
        # Only its weights: the source is that of a new module, whatever this one's precision.
        filled = self._assembled(self._runs(model, module).model_program(self._fixed))
        return replace(made, values=filled.values)

    @output_sizes_at_calls()
    @same_numbers_afterwards()
    def constructed_at(self, settings: OtherModel) -> Translation:
        """Return the translation at other settings without running it: its weights are shapes only.

        Args:
            settings: the settings to change, or a function that constructs the original with others.

        Raises:
            UsageError: the source or the original does not take these settings; says what to do.
            WeightsMismatch: the module that the source constructs lacks a weight, or has one of another shape.
        """
        if callable(settings):
            settings = partial(built_on_meta, settings)
        model = self.model(settings)
        made = self._translated(model, self._runs(model, constructed_at(model, on_meta=True)))
        made.check_built()
        return made

    def _runs(self, model: ConfiguredModel, module: Any) -> RunsElsewhere:
        try:
            return runs_at(model, self._base, module=module)
        except CannotKeep as error:
            raise UsageError(_UNKEPT.format(at=settings_text(model.named), why=error)) from None

    def _translated(self, model: ConfiguredModel, runs: RunsElsewhere) -> Translation:
        try:
            there = runs.model_program(self._fixed)
        except CannotKeep as error:
            raise UsageError(_UNKEPT.format(at=settings_text(model.named), why=error)) from None
        if line := difference(self._base.program, there.program):
            raise UsageError(
                f"at {settings_text(model.named)} the source differs: {line}. Translate the model with these settings "
                "separately"
            )
        return self._with_source(there)

    def _with_source(self, there: ModelProgram) -> Translation:
        """Return the translation at other settings, with the source that was written for the model's own."""
        made = self._assembled(there)
        known = zip(made.others, self._made.others, strict=True)
        others = tuple(replace(other, source=self._source, lengths=before.lengths) for other, before in known)
        return replace(made, source=self._source, rules=self._axes.rules, lengths=self._made.lengths, others=others)

    def _assembled(self, there: ModelProgram) -> Translation:
        try:
            return assembled(there, remat=self._remat, stacks=self._stacks)[0]
        except CannotScan as error:
            raise UsageError(f"at other settings the layers form no stack: {error}. Translate without scan") from None

    @cached_property
    def _source(self) -> str:
        """The source without checks of its inputs."""
        return assembled(self._base, remat=self._remat, stacks=self._stacks, axes=self._axes)[1]()

    def proof_at(self, settings: OtherModel, module: Any = None, **options: Any) -> Proof:
        """Compare both sides at other settings.

        Args:
            settings: the settings to change, or a function that constructs the original with others.
            module: a module of the original's class with these settings; by default a new one is constructed.
            options: options of `port.translation.verify.prove`.

        Raises:
            UsageError: the source or the original does not take these settings; says what to do.
        """
        return self.proof(self.model(settings), module, **options)

    def proof(self, model: ConfiguredModel, module: Any = None, **options: Any) -> Proof:
        """Compare both sides at a model's settings; on the meta device compare only the shapes of the weights."""
        known = next((each.runs for each in self._requested.values() if each.model is model), None)
        if module is None and known is not None:
            module, runs = known.cases[0].module, known
        else:
            module = constructed_at(model) if module is None else module
            runs = self._runs(model, module)
        made = self._translated(model, runs)
        if is_on_meta(module):
            made.check_built()
            return Proof((), remarks=(_ON_SHAPES,))
        if is_on_meta(self.original):  # its lengths could not be tried
            made = _at_other_lengths(module, made, model.calls)
        return prove_cases(module, made, model.calls, **options)

    @output_sizes_at_calls()
    @same_numbers_afterwards()
    def proof_around(self, model: ConfiguredModel) -> Proof:
        """Compare both sides at a model's settings, even if its own translation would have a different source.

        Raises:
            CannotKeep: its constructors cannot be kept.
            PortError: it cannot be translated.
        """
        module = constructed_at(model)
        made = self._with_source(runs_at(model, self._base, module=module).model_program(self._fixed))
        others = [replace(each, lengths=replace(each.lengths, tried=())) for each in (made, *made.others)]
        return prove_cases(module, replace(others[0], others=tuple(others[1:])), model.calls)

    def model(self, settings: OtherModel) -> ConfiguredModel:
        """Return the original at other settings.

        Args:
            settings: the settings to change, or a function that constructs the original with others.

        Raises:
            UsageError: the source or the original does not take these settings.
        """
        root = self._base.captured.root
        if self._model is None:
            raise UsageError(
                f"{type(root).__qualname__} cannot be constructed at other settings: pass construct=lambda: …, which "
                "constructs it"
            )
        if callable(settings):
            requested = self._requested.get(id(settings))
            return other_model(self._model, settings) if requested is None else requested.model
        try:
            known = named_settings(self._base.program, settings)
        except KeyError as error:
            why = self._made.settings.why_fixed(error.args[0])
            raise UsageError(
                f"the module written for {type(root).__qualname__} has no argument {error.args[0]!r}"
                + (f": {why}" if why else f"; it has {_names(self._base)}")
            ) from None
        moves: dict[Setting, Any] = {known[name]: value for name, value in settings.items()}
        try:
            return with_user_settings(self._model, moves)
        except Exception as error:
            raise UsageError(
                f"the original refuses {settings_text(settings)}: {type(error).__name__}: {error}"
            ) from error


_ON_SHAPES = "constructed on shapes only: the same source, with every weight in place; nothing was run"
_UNKEPT = (
    "at {at} the original's constructors cannot be kept: {why}. Translate the model with these settings separately"
)


def other_model(model: ConfiguredModel, construct: Callable[[], Any]) -> ConfiguredModel:
    """Return the original as the user's function constructs it.

    Raises:
        UsageError: it refuses the inputs, or cannot be reconstructed.
    """
    try:
        return constructed_by(model, construct)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"the other original refuses the example inputs, or cannot be reconstructed: {why}") from error


def _names(base: ModelProgram) -> str:
    return ", ".join(".".join(setting) for setting in settings_of(base.program)) or "none"


def _at_other_lengths(module: Any, made: Translation, calls: Sequence[Given]) -> Translation:
    """Return the translation with additional lengths at which to compare both sides."""
    cases = [
        replace(case, lengths=tried_lengths(OriginalAndWritten(module, case, args, kwargs)))
        for case, (args, kwargs) in zip((made, *made.others), calls, strict=True)
    ]
    return replace(cases[0], others=tuple(cases[1:]))


def prove_cases(module: Any, made: Translation, calls: Sequence[Given], **options: Any) -> Proof:
    """Compare both sides in each example call, and join the proofs."""
    proofs = [
        prove(module, case, args, kwargs, **options)
        for case, (args, kwargs) in zip((made, *made.others), calls, strict=True)
    ]
    proof = proofs[0]
    for number, other in enumerate(proofs[1:], start=2):
        proof = with_proof(proof, other, f"in example call {number}")
    return with_generation(proof, module, made)


def joined_proofs(proof: Proof, elsewhere: Sequence[tuple[Settings, Proof]]) -> Proof:
    """Join a proof with those at other settings.

    A model on the meta device has no proof of its own; the first proof at other settings takes its place.
    """
    made = proof
    for settings, other in elsewhere:
        at = f"with {settings_text(settings) or 'its own settings'}"
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
    """Join two proofs of the same source.

    Args:
        proof: the proof.
        other: a proof of the source in another case.
        where: a phrase that names that case.
    """
    return replace(
        proof,
        rows=(*proof.rows, *(replace(row, what=f"{row.what} {where}") for row in other.rows)),
        failed=proof.failed or (other.failed and f"{where}: {other.failed}"),
        unjudged=proof.unjudged or (other.unjudged and f"{where}: {other.unjudged}"),
        remarks=(*proof.remarks, *(f"{where}: {remark}" for remark in other.remarks)),
        explanation=proof.explanation if proof.explanation.lines else other.explanation,
    )
