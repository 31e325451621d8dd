"""Both sides run in float64: outputs in evaluation and in training, gradients, and what a step leaves in buffers."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from port.translation.double import twice, why_not
from port.translation.loading import LABEL
from port.translation.proof.comparing import compared
from port.translation.proof.flax_run import flax_run
from port.translation.proof.other_lengths import Sides, words
from port.translation.proof.precision import cpu_precision
from port.translation.proof.run import OtherShape
from port.translation.proof.unread import unread_and_felt
from port.translation.proof.verdict import Compared, Proof

if TYPE_CHECKING:
    import torch

    from port.translation.translation import Translation


def prove(module: torch.nn.Module, translation: Translation, args: Any, kwargs: Any, *, seed: int = 0) -> Proof:
    """Run both sides on the inputs and compare: in float64, or where the original does not run so, in float32.

    What the code itself draws at random, dropout masks too, is the same on both sides.

    Args:
        module: the original.
        translation: of it.
        args: inputs.
        kwargs: those by name.
        seed: of the random cotangents and of what both sides draw.
    """
    sides = Sides(module, translation, args, kwargs, seed=seed)
    module, given = sides.module, (sides.args, sides.kwargs)
    precision, limits, is_wide = sides.precision, sides.limits, sides.precision == "float64"
    rows: list[Compared] = []
    remarks = dict.fromkeys([limits.why] if limits.why else [])
    if translation.needs_x64:
        remarks[_X64] = None
    with cpu_precision(is_wide or translation.needs_x64):
        for training in (False, True):
            with sides.torch_dtype():
                if training and (why := why_not(module, *given, training=True)):
                    # One value a channel, say, which BatchNorm refuses: the same twice is no batch of one.
                    given = twice(*given)
                    if why_not(module, *given, training=True):
                        remarks[f"training mode was not compared, since the original does not run in it: {why}"] = None
                        break
                theirs = sides.torch(module, given, training=training)
                unread = unread_and_felt(module, translation, given, training, seed, theirs.outputs)
            if unread:
                return Proof(tuple(rows), precision, _UNREAD.format(", ".join(unread)), tuple(remarks))
            if theirs.no_gradient:
                mode = "training" if training else "evaluation"
                remarks[f"gradients in {mode} were not compared, since torch has none: {theirs.no_gradient}"] = None
            if training and theirs.silenced:
                remarks[f"dropout was off inside {', '.join(theirs.silenced)}"] = None
            try:
                ours = flax_run(translation, precision, given, training, theirs.cotangents, seed)
            except OtherShape as error:
                return Proof(tuple(rows), precision, str(error), tuple(remarks))
            except Exception as error:
                if _did_not_fit(error):
                    return _unfit(rows, precision, remarks, f"in {'training' if training else 'evaluation'}")
                return Proof(tuple(rows), precision, _told(error), tuple(remarks))
            control = sides.control(theirs, given, training=training)
            rows += compared(theirs, ours, translation, training, limits, control)
    for sizes in translation.lengths.tried:
        try:
            modes = (False, True) if sides.trains_at(sizes) else (False,)
            rows += [row for training in modes for row in sides.rows_at(sizes, training=training)]
        except Exception as error:
            if _did_not_fit(error):
                return _unfit(rows, precision, remarks, f"at {words(sizes)}")
            return Proof(tuple(rows), precision, f"at {words(sizes)}, {_told(error)}", tuple(remarks))
    if translation.own_gradients and any(row.what.startswith("gradients") and not row.agrees for row in rows):
        remarks[_OWN.format(", ".join(translation.own_gradients))] = None
    return Proof(tuple(rows), precision, remarks=tuple(remarks), lengths=_tried(translation))


def _did_not_fit(error: Exception) -> bool:
    """Whether memory ran out, torch's or XLA's."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _OUT_OF_MEMORY)


def _unfit(rows: list[Compared], precision: str, remarks: dict[str, None], where: str) -> Proof:
    return Proof(tuple(rows), precision, remarks=tuple(remarks), unjudged=_UNFIT.format(where))


def _tried(translation: Translation) -> str:
    """The lengths of the inputs at which both sides ran."""
    lengths = translation.lengths
    if not lengths.names:
        return "the example's lengths alone, which are fixed, and checked where they come in"
    tried = "; ".join(map(words, lengths.tried))
    return f"the example's lengths{f'; {tried}' if tried else ' alone: the original ran at no others'}"


_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "can't allocate memory", "not enough memory")
_UNFIT = (
    "the run {} did not fit into memory: translate with a smaller batch, smaller images or a shorter sequence, or a "
    "part alone (--submodule)"
)
_UNREAD = "the written module does not read {}, and what the original gives changes with it"
_OWN = (
    "{}: a backward pass of its own, which is not written; the gradients are those of its forward. "
    "Write it with jax.custom_vjp"
)
_X64 = (
    "the source names 64-bit dtypes, which JAX has only with jax_enable_x64: it was on, and has to be wherever it runs"
)


def _told(error: Exception) -> str:
    """Why the written module does not run: the error's first line, and the line of the source."""
    frames = traceback.extract_tb(error.__traceback__)
    text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    own = [frame for frame in frames if LABEL in frame.filename]
    where = f" in `{own[-1].line}`" if own else f" ({frames[-1].name})"
    return f"the written module does not run{where}: {text}"
