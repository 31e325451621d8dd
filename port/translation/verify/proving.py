"""Prove a translation: run both sides in float64, and compare outputs, gradients and buffers in both modes."""

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
from port.parity.sides.run import NO_NUMBERS, NO_NUMBERS_IN, Run, are_empty
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
    described_error,
    error_of,
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
    """Run both sides on the inputs and compare them: in float64, or in float32 if the original does not run in float64.

    Random numbers that the code itself draws, such as dropout masks, are the same on both sides.

    Args:
        module: the original.
        translation: the written module.
        args: positional inputs.
        kwargs: keyword inputs.
        seed: seeds the random cotangents and the numbers that both sides draw.
        time_limit: the limit in seconds, checked against an estimate beforehand. What would take longer is compared at
            smaller lengths, or not at all, and the proof says so.
        tell: called beforehand with the estimated duration, if that is long.

    Raises:
        Exception: the original's error.
    """
    try:
        sides = OriginalAndWritten(module, translation, args, kwargs, seed=seed)
    except Exception as error:
        if not did_not_fit(error):
            raise
        return Proof((), unjudged=UNFIT.format("of a copy of the original in float64"))
    proving = _Proving(sides, time_limit)
    notice = announcement(min(time_limit, sides.seconds() + sum(map(sides.seconds, translation.lengths.tried))))
    if tell is not None and notice:
        tell(notice)
    try:
        return proving.proof()
    except KeyboardInterrupt:
        # Return what was compared so far; a second interrupt ends the command.
        return proving.ended(unjudged="it was interrupted before everything was compared: run it again")


class _Proving:
    """A comparison in progress.

    Args:
        sides: the original and the written module.
        time_limit: the limit in seconds.
    """

    def __init__(self, sides: OriginalAndWritten, time_limit: float = TIME_LIMIT) -> None:
        self.sides, self.translation = sides, sides.translation
        self.time_limit, self.began = time_limit, time.monotonic()
        self.parts: tuple[Part | None, ...] = (None,)  # one part: all parameters at once
        self.undivided = ""  # why the parameters are divided into parts
        self.rows: list[Compared] = []
        self.ran_at: Lengths = {}  # empty: the example's own
        self.others: list[Lengths] = []
        self.remarks = dict.fromkeys([sides.limits.why] if sides.limits.why else [])
        if self.translation.needs_x64:
            self.remarks[X64] = None

    def ended(self, failed: str = "", unjudged: str = "") -> Proof:
        """Return the proof with what was found so far."""
        rows, remarks = tuple(self.rows), tuple(self.remarks)
        if rows and self.sides.is_empty:
            unjudged = unjudged or NO_NUMBERS
        lengths = "" if failed or unjudged else compared_at(self.translation, self.ran_at, self.others)
        return Proof(rows, self.sides.precision, failed, remarks, lengths, unjudged)

    def explained(self) -> Proof:
        """Return the proof with all findings, and an explanation if the sides differ."""
        proof = self.ended()
        apart = {row.what for row in proof.rows if row.status is Status.DIFFER}
        modes = {mode for mode in ("evaluation", "training") if any(mode in what for what in apart)}
        if not modes:
            return proof
        call = self.sides.call_at(self.ran_at) if self.ran_at else (self.sides.args, self.sides.kwargs)
        return replace(proof, explanation=explanation_of(self.sides, call, modes))

    def proof(self) -> Proof:
        """Run all comparisons."""
        sides, call = self.sides, (self.sides.args, self.sides.kwargs)
        if alike := shared_keys_of(sides):
            return self.ended(alike)
        if (excess := self.beyond(call, gradients=True)) is not None:
            sizes = smaller(sides, lambda sizes: self.beyond(sides.call_at(sizes), gradients=True) is None)
            if sizes is not None:
                call, self.ran_at = sides.call_at(sizes), sizes
                self.remarks[f"compared at {words(sizes)} in place of the example's lengths: {excess.how_much}"] = None
            elif not self.divide(call, excess.how_much):
                return self.outputs_alone(call, excess)
        for training in (False, True):
            mode = "training" if training else "evaluation"
            if training:
                with sides.torch_dtype():
                    why = forward_error(sides.module, *call, training=True)
                    if why:
                        # BatchNorm refuses one value per channel, for example: repeat the batch.
                        call = twice(*call)
                        if forward_error(sides.module, *call, training=True):
                            self.remarks[UNTRAINED.format(why)] = None
                            break
            failed = self.mode_that_fits(call, training, mode)
            if isinstance(failed, Beyond):
                return self.outputs_alone(call, failed)
            if failed:
                return self.ended(failed)
        return self.at_other_lengths()

    def beyond(self, call: Any, *, gradients: bool, parts: int = 1) -> Beyond | None:
        """Return why both modes cannot run on (args, kwargs), for memory or time; None if they can."""
        cost = self.sides.cost_of(call)
        if not fits(cost, gradients=gradients, parts=parts):
            return Beyond(UNFIT, shortage(cost, gradients=gradients))
        long = overtime(2 * parts * seconds_compiled(cost, gradients=gradients), self.time_limit)
        return Beyond(TOO_LONG, long) if long else None

    def divide(self, call: Any, why: str) -> bool:
        """Divide the parameters into as few parts as fit into memory; return whether that is possible."""
        count = least_parts(lambda count: self.beyond(call, gradients=True, parts=count) is None)
        sizes = {name: p.nbytes for name, p in self.sides.module.named_parameters(remove_duplicate=False)}
        mapping, prefix = self.translation.mapping, self.translation.prefix
        parts = parts_of(mapping.entries, sizes, count, prefix=prefix) if count else ()
        if len(parts) < 2:
            return False
        self.parts, self.undivided = parts, why
        return True

    def mode_that_fits(self, call: Any, training: bool, mode: str) -> str | Beyond:
        """Compare one mode, in parts if it does not fit into memory; return why not, if it cannot be compared."""
        while True:
            try:
                failed = self.mode(call, training, mode)
                if len(self.parts) > 1:
                    self.remarks[f"{said_of(len(self.parts))}: {self.undivided}"] = None
                return failed
            except Exception as error:
                if not did_not_fit(error):
                    raise
            why = f"the run in {mode} did not fit"
            if len(self.parts) > 1 or not self.divide(call, why):
                return Beyond(UNFIT, why)

    def mode(self, call: Any, training: bool, mode: str) -> str:
        """Compare one mode; return the written module's failure, if it cannot be compared."""
        sides, translation = self.sides, self.translation
        with cpu_precision(sides.precision == "float64" or translation.needs_x64):
            part = self.parts[0]
            theirs = sides.torch(sides.module, call, training=training, part=part)
            with sides.torch_dtype():
                unread = unread_and_felt(sides.module, translation, call, training, sides.seed, theirs.outputs)
            if unread:
                return UNREAD.format(", ".join(unread))
            if theirs.no_gradient:
                self.remarks[f"gradients in {mode} were not compared, since torch has none: {theirs.no_gradient}"] = (
                    None
                )
            if theirs.refused_inputs:
                self.remarks[REFUSED_INPUTS.format(mode, theirs.refused_inputs)] = None
            if are_empty(theirs.outputs):
                self.remarks[NO_NUMBERS_IN.format(mode)] = None
            if training and theirs.silenced:
                self.remarks[f"dropout was off inside {', '.join(theirs.silenced)}"] = None
            try:
                ours = self.flax(call, training, theirs, part)
            except OtherShape as error:
                return str(error)
            except Exception as error:
                if did_not_fit(error):
                    raise
                return self.without_gradients(call, training, theirs, error)
            judge = sides.judge(theirs, call, training=training, part=part)
            self.rows += compared(theirs, ours, translation, training, judge)
            others = () if theirs.no_gradient else self.parts[1:]
            del theirs, ours, judge  # one part is in memory at a time
            for part in others:
                self.rows = with_row(self.rows, self.gradients_of(part, call, training))
        return ""

    def flax(self, call: Any, training: bool, theirs: Run, part: Part | None) -> Run:
        """Run Flax's side with the cotangents of torch's run."""
        paths = None if part is None else part.flax
        return flax_run(self.sides.written, call, training, theirs.cotangents, self.sides.seed, paths)

    def gradients_of(self, part: Part | None, call: Any, training: bool) -> Compared:
        """Compare the gradients of one more part of the parameters."""
        theirs = self.sides.torch(self.sides.module, call, training=training, part=part)
        ours = self.flax(call, training, theirs, part)
        judge = self.sides.judge(theirs, call, training=training, part=part)
        return compared_gradients(theirs, ours, self.translation, training, judge)

    def without_gradients(self, call: Any, training: bool, theirs: Run, error: Exception) -> str:
        """Compare only outputs, since the written module does not run with gradients; return the failure, if it is one.

        Args:
            call: (args, kwargs).
            training: the mode.
            theirs: torch's run.
            error: JAX's error.
        """
        mode = "training" if training else "evaluation"
        try:
            row = self.sides.compared(call, "", training=training)
        except Exception as without:
            if did_not_fit(without):
                raise
            return error_of(error)
        self.rows += [] if row is None else [row]
        described = described_error(error)
        if theirs.no_gradient:
            self.remarks[f"JAX has no gradient in {mode} either, and buffers were not compared there{described}"] = None
            return ""
        return NO_GRADIENT.format(mode, described)

    def outputs_alone(self, call: Any, why: Beyond) -> Proof:
        """Compare only outputs, as far as they fit, since a backward pass does not fit into memory or time."""
        unfit = Beyond(UNFIT, why.how_much)
        done = {row.what for row in self.rows}
        for mode, training in (("evaluation", False), ("training", True)):
            if f"outputs in {mode}" in done:
                continue
            try:
                if (forward := self.beyond(call, gradients=False)) is not None:
                    return self.ended(unjudged=forward.of(f"in {mode}"))
                row = self.sides.compared(call, "", training=training)
            except Exception as error:
                if not did_not_fit(error):
                    return self.ended(error_of(error))
                return self.ended(unjudged=unfit.of(f"in {mode}"))
            self.rows += [] if row is None else [replace(row, what=f"outputs in {mode}")]
        return self.ended(unjudged=why.of("with gradients"))

    def at_other_lengths(self) -> Proof:
        """Compare at the other lengths that the translation accepts."""
        for sizes in self.translation.lengths.tried:
            is_short_of_memory = self.ran_at or len(self.parts) > 1
            if is_short_of_memory and not fits(self.sides.cost_of(self.sides.call_at(sizes)), gradients=True):
                continue  # these lengths do not fit either
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
