"""Both sides run in float64: outputs in evaluation and in training, gradients, and what a step leaves in buffers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.judging import Status
from port.judging.compared import Compared, with_row
from port.judging.limits import TIME_LIMIT
from port.parity.sides.duration import announcement, duration, overtime, seconds_compiled
from port.parity.sides.fitting import did_not_fit, fits, shortage
from port.parity.sides.flax_pass import OtherShape
from port.parity.sides.parts import Part, least_parts, parts_of, said_of
from port.parity.sides.precision import cpu_precision
from port.parity.sides.run import Run
from port.translation.frontend.input_lengths import Lengths
from port.translation.frontend.precision import forward_error, twice
from port.translation.verify.compare import compared, compared_gradients
from port.translation.verify.explain import explanation_of
from port.translation.verify.flax_run import flax_run
from port.translation.verify.other_lengths import OriginalAndWritten, words
from port.translation.verify.proof import Proof
from port.translation.verify.shared_keys import shared_keys_of
from port.translation.verify.smaller import smaller
from port.translation.verify.unread import unread_and_felt
from port.translation.verify.wording import (
    LATE,
    NO_GRADIENT,
    OWN_BACKWARD,
    REFUSED_INPUTS,
    TOO_LONG,
    UNFIT,
    UNREAD,
    UNTRAINED,
    X64,
    Beyond,
    compared_at,
    error_of,
    said_by,
)

if TYPE_CHECKING:
    import torch

    from port.translation.artifact.written_module import WrittenModule


def prove(
    module: torch.nn.Module,
    translation: WrittenModule,
    args: Any,
    kwargs: Any,
    *,
    seed: int = 0,
    time_limit: float = TIME_LIMIT,
    tell: Callable[[str], Any] | None = None,
) -> Proof:
    """Run both sides on the inputs and compare: in float64, or where the original does not run so, in float32.

    What the code itself draws at random, dropout masks too, is the same on both sides.

    Args:
        module: the original.
        translation: of it.
        args: inputs.
        kwargs: those by name.
        seed: of the random cotangents and of what both sides draw.
        time_limit: seconds that it may take, as estimated beforehand; what would take longer is compared at smaller
            lengths, or not at all, and the proof says so.
        tell: is told beforehand how long it takes, if that is long.
    """
    try:
        sides = OriginalAndWritten(module, translation, args, kwargs, seed=seed)
    except Exception as error:
        if not did_not_fit(error):
            raise
        return Proof((), unjudged=UNFIT.format("of a copy of the original in float64"))
    proving = _Proving(sides, time_limit)
    said = announcement(min(time_limit, sides.seconds() + sum(map(sides.seconds, translation.lengths.tried))))
    if tell is not None and said:
        tell(said)
    try:
        return proving.proof()
    except KeyboardInterrupt:
        # What was compared so far is worth more than nothing; a second one ends the command.
        return proving.ended(unjudged="it was interrupted before everything was compared: run it again")


class _Proving:
    """A comparison on its way.

    Args:
        sides: the original and the written module.
        time_limit: seconds that it may take.
    """

    def __init__(self, sides: OriginalAndWritten, time_limit: float = TIME_LIMIT) -> None:
        self.sides, self.translation = sides, sides.translation
        self.time_limit, self.began = time_limit, time.monotonic()
        self.parts: tuple[Part | None, ...] = (None,)  # one of all parameters
        self.undivided = ""  # why they are not taken at once
        self.rows: list[Compared] = []
        self.ran_at: Lengths = {}  # empty: the example's own
        self.others: list[Lengths] = []
        self.remarks = dict.fromkeys([sides.limits.why] if sides.limits.why else [])
        if self.translation.needs_x64:
            self.remarks[X64] = None

    def ended(self, failed: str = "", unjudged: str = "") -> Proof:
        """What was found so far."""
        rows, remarks = tuple(self.rows), tuple(self.remarks)
        lengths = "" if failed or unjudged else compared_at(self.translation, self.ran_at, self.others)
        return Proof(rows, self.sides.precision, failed, remarks, lengths, unjudged)

    def explained(self) -> Proof:
        """All that was found, and where two sides that differ part first, and why."""
        proof = self.ended()
        apart = {row.what for row in proof.rows if row.status is Status.DIFFER}
        modes = {mode for mode in ("evaluation", "training") if any(mode in what for what in apart)}
        if not modes:
            return proof
        given = self.sides.given_at(self.ran_at) if self.ran_at else (self.sides.args, self.sides.kwargs)
        return replace(proof, explanation=explanation_of(self.sides, given, modes))

    def proof(self) -> Proof:
        """Run all of it."""
        sides, given = self.sides, (self.sides.args, self.sides.kwargs)
        if alike := shared_keys_of(sides):
            return self.ended(alike)
        if (excess := self.beyond(given, gradients=True)) is not None:
            sizes = smaller(sides, lambda sizes: self.beyond(sides.given_at(sizes), gradients=True) is None)
            if sizes is not None:
                given, self.ran_at = sides.given_at(sizes), sizes
                self.remarks[f"compared at {words(sizes)} in place of the example's lengths: {excess.how_much}"] = None
            elif not self.divide(given, excess.how_much):
                return self.outputs_alone(given, excess)
        for training in (False, True):
            mode = "training" if training else "evaluation"
            if training:
                with sides.torch_dtype():
                    why = forward_error(sides.module, *given, training=True)
                    if why:
                        # One value a channel, say, which BatchNorm refuses: the same twice is no batch of one.
                        given = twice(*given)
                        if forward_error(sides.module, *given, training=True):
                            self.remarks[UNTRAINED.format(why)] = None
                            break
            failed = self.mode_that_fits(given, training, mode)
            if isinstance(failed, Beyond):
                return self.outputs_alone(given, failed)
            if failed:
                return self.ended(failed)
        return self.at_other_lengths()

    def beyond(self, given: Any, *, gradients: bool, parts: int = 1) -> Beyond | None:
        """Why both modes are not to be run on (args, kwargs); None if they are."""
        cost = self.sides.cost_of(given)
        if not fits(cost, gradients=gradients, parts=parts):
            return Beyond(UNFIT, shortage(cost, gradients=gradients))
        long = overtime(2 * parts * seconds_compiled(cost, gradients=gradients), self.time_limit)
        return Beyond(TOO_LONG, long) if long else None

    def divide(self, given: Any, why: str) -> bool:
        """Have gradients taken in parts, as few as fit; whether there are so many that do."""
        count = least_parts(lambda count: self.beyond(given, gradients=True, parts=count) is None)
        sizes = {name: p.nbytes for name, p in self.sides.module.named_parameters(remove_duplicate=False)}
        mapping, prefix = self.translation.mapping, self.translation.prefix
        parts = parts_of(mapping.entries, sizes, count, prefix=prefix) if count else ()
        if len(parts) < 2:
            return False
        self.parts, self.undivided = parts, why
        return True

    def mode_that_fits(self, given: Any, training: bool, mode: str) -> str | Beyond:
        """Compare one mode, in parts where it does not fit; why it cannot be compared, if it cannot."""
        while True:
            try:
                failed = self.mode(given, training, mode)
                if len(self.parts) > 1:
                    self.remarks[f"{said_of(len(self.parts))}: {self.undivided}"] = None
                return failed
            except Exception as error:
                if not did_not_fit(error):
                    raise
            why = f"the run in {mode} did not fit"
            if len(self.parts) > 1 or not self.divide(given, why):
                return Beyond(UNFIT, why)

    def mode(self, given: Any, training: bool, mode: str) -> str:
        """Compare one mode; why the written module cannot be compared, if it cannot."""
        sides, translation = self.sides, self.translation
        with cpu_precision(sides.precision == "float64" or translation.needs_x64):
            part = self.parts[0]
            theirs = sides.torch(sides.module, given, training=training, part=part)
            with sides.torch_dtype():
                unread = unread_and_felt(sides.module, translation, given, training, sides.seed, theirs.outputs)
            if unread:
                return UNREAD.format(", ".join(unread))
            if theirs.no_gradient:
                self.remarks[f"gradients in {mode} were not compared, since torch has none: {theirs.no_gradient}"] = (
                    None
                )
            if theirs.refused_inputs:
                self.remarks[REFUSED_INPUTS.format(mode, theirs.refused_inputs)] = None
            if training and theirs.silenced:
                self.remarks[f"dropout was off inside {', '.join(theirs.silenced)}"] = None
            try:
                ours = self.flax(given, training, theirs, part)
            except OtherShape as error:
                return str(error)
            except Exception as error:
                if did_not_fit(error):
                    raise
                return self.without_gradients(given, training, theirs, error)
            judge = sides.judge(theirs, given, training=training, part=part)
            self.rows += compared(theirs, ours, translation, training, judge)
            others = () if theirs.no_gradient else self.parts[1:]
            del theirs, ours, judge  # one part is in memory at a time
            for part in others:
                self.rows = with_row(self.rows, self.gradients_of(part, given, training))
        return ""

    def flax(self, given: Any, training: bool, theirs: Run, part: Part | None) -> Run:
        """Flax's run, as torch's was."""
        paths = None if part is None else part.flax
        return flax_run(self.sides.written, given, training, theirs.cotangents, self.sides.seed, paths)

    def gradients_of(self, part: Part | None, given: Any, training: bool) -> Compared:
        """Compare the gradients of one more part of the parameters, and let them go."""
        theirs = self.sides.torch(self.sides.module, given, training=training, part=part)
        ours = self.flax(given, training, theirs, part)
        judge = self.sides.judge(theirs, given, training=training, part=part)
        return compared_gradients(theirs, ours, self.translation, training, judge)

    def without_gradients(self, given: Any, training: bool, theirs: Run, error: Exception) -> str:
        """Where the written module does not run with gradients, what it gives without; why that is a failure, if so.

        Args:
            given: (args, kwargs).
            training: the mode.
            theirs: torch's run.
            error: what JAX raised.
        """
        mode = "training" if training else "evaluation"
        try:
            row = self.sides.compared(given, "", training=training)
        except Exception as without:
            if did_not_fit(without):
                raise
            return error_of(error)
        self.rows += [] if row is None else [row]
        said = said_by(error)
        if theirs.no_gradient:
            self.remarks[f"nor has JAX a gradient in {mode}, where buffers were not compared either{said}"] = None
            return ""
        return NO_GRADIENT.format(mode, said)

    def outputs_alone(self, given: Any, why: Beyond) -> Proof:
        """Where a backward pass does not fit: what both sides give forward, as far as that does."""
        unfit = Beyond(UNFIT, why.how_much)
        done = {row.what for row in self.rows}
        for mode, training in (("evaluation", False), ("training", True)):
            if f"outputs in {mode}" in done:
                continue
            try:
                if (forward := self.beyond(given, gradients=False)) is not None:
                    return self.ended(unjudged=forward.of(f"in {mode}"))
                row = self.sides.compared(given, "", training=training)
            except Exception as error:
                if not did_not_fit(error):
                    return self.ended(error_of(error))
                return self.ended(unjudged=unfit.of(f"in {mode}"))
            self.rows += [] if row is None else [replace(row, what=f"outputs in {mode}")]
        return self.ended(unjudged=why.of("with gradients"))

    def at_other_lengths(self) -> Proof:
        """Compare at the other lengths that the translation takes."""
        for sizes in self.translation.lengths.tried:
            is_short_of_memory = self.ran_at or len(self.parts) > 1
            if is_short_of_memory and not fits(self.sides.cost_of(self.sides.given_at(sizes)), gradients=True):
                continue  # they are as long as what did not fit
            if time.monotonic() - self.began + self.sides.seconds(sizes) > self.time_limit:
                self.remarks[f"not compared at {words(sizes)}: {LATE.format(duration(self.time_limit))}"] = None
                continue
            self.others.append(sizes)
            try:
                modes = (False, True) if self.sides.trains_at(sizes) else (False,)
                self.rows += [row for training in modes for row in self.sides.rows_at(sizes, training=training)]
            except Exception as error:
                if did_not_fit(error):
                    return self.ended(unjudged=UNFIT.format(f"at {words(sizes)}"))
                return self.ended(f"at {words(sizes)}, {error_of(error)}")
        apart = any(row.what.startswith("gradients") and not row.agrees for row in self.rows)
        if self.translation.own_gradients and apart:
            self.remarks[OWN_BACKWARD.format(", ".join(self.translation.own_gradients))] = None
        return self.explained()
