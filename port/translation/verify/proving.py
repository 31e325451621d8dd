"""Both sides run in float64: outputs in evaluation and in training, gradients, and what a step leaves in buffers."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.judging import Compared, Status
from port.parity.sides.fitting import SMALLER, did_not_fit, fits, shortage
from port.parity.sides.flax_pass import OtherShape
from port.parity.sides.precision import cpu_precision
from port.translation.codegen.module_of_source import LABEL
from port.translation.frontend.input_lengths import Lengths
from port.translation.frontend.precision import twice, why_not
from port.translation.verify.compare import compared
from port.translation.verify.explain import explanation_of
from port.translation.verify.flax_run import flax_run
from port.translation.verify.other_lengths import Sides, words
from port.translation.verify.proof import Proof
from port.translation.verify.smaller import smaller
from port.translation.verify.unread import unread_and_felt

if TYPE_CHECKING:
    import torch

    from port.translation.artifact.written_module import WrittenModule


def prove(module: torch.nn.Module, translation: WrittenModule, args: Any, kwargs: Any, *, seed: int = 0) -> Proof:
    """Run both sides on the inputs and compare: in float64, or where the original does not run so, in float32.

    What the code itself draws at random, dropout masks too, is the same on both sides.

    Args:
        module: the original.
        translation: of it.
        args: inputs.
        kwargs: those by name.
        seed: of the random cotangents and of what both sides draw.
    """
    try:
        sides = Sides(module, translation, args, kwargs, seed=seed)
    except Exception as error:
        if not did_not_fit(error):
            raise
        return Proof((), unjudged=_UNFIT.format("of a copy of the original in float64"))
    proving = _Proving(sides)
    try:
        return proving.proof()
    except KeyboardInterrupt:
        # What was compared so far is worth more than nothing; a second one ends the command.
        return proving.ended(unjudged="it was interrupted before all was compared: run it again")


class _Proving:
    """A comparison on its way.

    Args:
        sides: the original and the written module.
    """

    def __init__(self, sides: Sides) -> None:
        self.sides, self.translation = sides, sides.translation
        self.rows: list[Compared] = []
        self.ran_at: Lengths = {}  # empty: the example's own
        self.others: list[Lengths] = []
        self.remarks = dict.fromkeys([sides.limits.why] if sides.limits.why else [])
        if self.translation.needs_x64:
            self.remarks[_X64] = None

    def ended(self, failed: str = "", unjudged: str = "") -> Proof:
        """What was found so far."""
        rows, remarks = tuple(self.rows), tuple(self.remarks)
        lengths = "" if failed or unjudged else _compared_at(self.translation, self.ran_at, self.others)
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
        if not fits(sides.module, given, gradients=True):
            sizes = smaller(sides, lambda sizes: fits(sides.module, sides.given_at(sizes), gradients=True))
            where = shortage(sides.module, given, gradients=True)
            if sizes is None:
                return self.outputs_alone(given, where)
            given, self.ran_at = sides.given_at(sizes), sizes
            self.remarks[f"compared at {words(sizes)} in place of the example's lengths: {where}"] = None
        for training in (False, True):
            mode = "training" if training else "evaluation"
            if training:
                with sides.torch_dtype():
                    why = why_not(sides.module, *given, training=True)
                    if why:
                        # One value a channel, say, which BatchNorm refuses: the same twice is no batch of one.
                        given = twice(*given)
                        if why_not(sides.module, *given, training=True):
                            self.remarks[_UNTRAINED.format(why)] = None
                            break
            try:
                failed = self.mode(given, training, mode)
            except Exception as error:
                if not did_not_fit(error):
                    raise
                return self.outputs_alone(given, f"the run in {mode} did not fit")
            if failed:
                return self.ended(failed)
        return self.at_other_lengths()

    def mode(self, given: Any, training: bool, mode: str) -> str:
        """Compare one mode; why the written module cannot be compared, if it cannot."""
        sides, translation = self.sides, self.translation
        with cpu_precision(sides.precision == "float64" or translation.needs_x64):
            theirs = sides.torch(sides.module, given, training=training)
            with sides.torch_dtype():
                unread = unread_and_felt(sides.module, translation, given, training, sides.seed, theirs.outputs)
            if unread:
                return _UNREAD.format(", ".join(unread))
            if theirs.no_gradient:
                self.remarks[f"gradients in {mode} were not compared, since torch has none: {theirs.no_gradient}"] = (
                    None
                )
            if training and theirs.silenced:
                self.remarks[f"dropout was off inside {', '.join(theirs.silenced)}"] = None
            try:
                ours = flax_run(translation, sides.precision, given, training, theirs.cotangents, sides.seed)
            except OtherShape as error:
                return str(error)
            except Exception as error:
                if did_not_fit(error):
                    raise
                return _error_of(error)
            self.rows += compared(theirs, ours, translation, training, sides.judge(theirs, given, training=training))
        return ""

    def outputs_alone(self, given: Any, why: str) -> Proof:
        """Where a backward pass does not fit: what both sides give forward, as far as that does."""
        done = {row.what for row in self.rows}
        for mode, training in (("evaluation", False), ("training", True)):
            if f"outputs in {mode}" in done:
                continue
            try:
                if not fits(self.sides.module, given, gradients=False):
                    return self.ended(unjudged=_UNFIT.format(f"in {mode} ({why})"))
                row = self.sides.compared(given, "", training=training)
            except Exception as error:
                if not did_not_fit(error):
                    return self.ended(_error_of(error))
                return self.ended(unjudged=_UNFIT.format(f"in {mode} ({why})"))
            self.rows += [] if row is None else [replace(row, what=f"outputs in {mode}")]
        return self.ended(unjudged=_UNFIT.format(f"with gradients ({why})"))

    def at_other_lengths(self) -> Proof:
        """Compare at the other lengths that the translation takes."""
        for sizes in self.translation.lengths.tried:
            if self.ran_at and not fits(self.sides.module, self.sides.given_at(sizes), gradients=True):
                continue  # they are as long as what did not fit
            self.others.append(sizes)
            try:
                modes = (False, True) if self.sides.trains_at(sizes) else (False,)
                self.rows += [row for training in modes for row in self.sides.rows_at(sizes, training=training)]
            except Exception as error:
                if did_not_fit(error):
                    return self.ended(unjudged=_UNFIT.format(f"at {words(sizes)}"))
                return self.ended(f"at {words(sizes)}, {_error_of(error)}")
        apart = any(row.what.startswith("gradients") and not row.agrees for row in self.rows)
        if self.translation.own_gradients and apart:
            self.remarks[_OWN.format(", ".join(self.translation.own_gradients))] = None
        return self.explained()


def _compared_at(translation: WrittenModule, ran_at: Lengths, others: list[Lengths]) -> str:
    """The lengths of the inputs at which both sides ran."""
    if not translation.lengths.names:
        return "the example's lengths alone, which are fixed, and checked where they come in"
    first = words(ran_at) if ran_at else "the example's lengths"
    tried = "; ".join(map(words, others))
    return f"{first}; {tried}" if tried else f"{first} alone: the original ran at no others"


_UNFIT = f"the run {{}} did not fit into memory: translate with {SMALLER}, or a part alone (--submodule)"
_UNTRAINED = "training mode was not compared, since the original does not run in it: {}"
_UNREAD = "the written module does not read {}, and what the original gives changes with it"
_OWN = (
    "{}: a backward pass of its own, which is not written; the gradients are those of its forward. "
    "Write it with jax.custom_vjp"
)
_X64 = (
    "the source names 64-bit dtypes, which JAX has only with jax_enable_x64: it was on, and has to be wherever it runs"
)


def _error_of(error: Exception) -> str:
    """Why the written module does not run: the error's first line, and the line of the source."""
    frames = traceback.extract_tb(error.__traceback__)
    text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    own = [frame for frame in frames if LABEL in frame.filename]
    where = f" in `{own[-1].line}`" if own else f" ({frames[-1].name})"
    return f"the written module does not run{where}: {text}"
