"""Both sides run in float64: outputs in evaluation and in training, gradients, and what a step leaves in buffers."""

from __future__ import annotations

import traceback
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from port.translation.copies import copied
from port.translation.double import default_float64, in_double, twice, why_not
from port.translation.loading import LABEL
from port.translation.proof.comparing import compared
from port.translation.proof.flax_run import flax_run
from port.translation.proof.run import OtherShape
from port.translation.proof.torch_run import torch_run
from port.translation.proof.verdict import MIXED, SINGLE, Compared, Limits, Proof

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
    import jax

    wide = in_double(module, args, kwargs)
    precision = "float32" if wide is None else "float64"
    module, given = (copied(module).cpu(), (args, kwargs)) if wide is None else (wide[0], wide[1:])
    limits = SINGLE if wide is None else MIXED if translation.mixed else Limits()
    rows: list[Compared] = []
    remarks = dict.fromkeys([limits.why] if limits.why else [])
    if translation.needs_x64:
        remarks[_X64] = None
    with (
        jax.enable_x64(wide is not None or translation.needs_x64),
        jax.default_device(jax.devices("cpu")[0]),
        jax.default_matmul_precision("highest"),
    ):
        for training in (False, True):
            with nullcontext() if wide is None else default_float64():
                if training and (why := why_not(module, *given, training=True)):
                    # One value a channel, say, which BatchNorm refuses: the same twice is no batch of one.
                    given = twice(*given)
                    if why_not(module, *given, training=True):
                        remarks[f"training mode was not compared, since the original does not run in it: {why}"] = None
                        break
                theirs = torch_run(module, given, training, seed)
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
                return Proof(tuple(rows), precision, _told(error), tuple(remarks))
            rows += compared(theirs, ours, translation, training, limits)
    if translation.own_gradients and any(row.what.startswith("gradients") and not row.agrees for row in rows):
        remarks[_OWN.format(", ".join(translation.own_gradients))] = None
    return Proof(tuple(rows), precision, remarks=tuple(remarks))


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
