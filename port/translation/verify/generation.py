"""Proof of generation: with caches, the written module says at every position what the original says without them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from port.judging import Compared
from port.parity.sides.copies import copied
from port.parity.sides.precision import cpu_precision, default_dtype
from port.translation.frontend.precision import in_float64
from port.translation.verify.proof import Proof, limits_of

if TYPE_CHECKING:
    import torch

    from port.translation.artifact.written_module import WrittenModule

STEPS, ROOM = 21, 24
"""Tokens that are read one at a time, behind a prompt; and those of a text, if no window is longer."""
LONGEST = 4200
"""Of a text: a longer window's end is not reached."""


def with_generation(proof: Proof, module: torch.nn.Module, made: WrittenModule) -> Proof:
    """A proof, and where the original is one with caches, that of its generation as well.

    Args:
        proof: that both sides do the same in one call.
        module: the original, with numbers. One with caches has ``without_cache``, as it was without.
        made: what was written.
    """
    if not hasattr(module, "without_cache") or proof.failed or not proof.rows:
        return proof
    text = _text(module)
    remarks = proof.remarks
    if text.shape[1] <= module.window:
        remarks += (f"generation: of a window of {module.window:,} tokens the end is not reached by {text.shape[1]:,}",)
    wide = copied(module, in_float64).eval()
    limit = limits_of(proof.precision == "float32", made.mixed).forward
    with default_dtype("float64"):
        expected = _logits(wide, text)
        try:
            with cpu_precision(x64=True):
                rows = _ours(wide, made, text, expected, limit)
        except Exception as error:
            return replace(proof, failed=f"generation: {type(error).__name__}: {error}")
    return replace(proof, rows=(*proof.rows, *rows), remarks=remarks)


def _text(module: Any) -> np.ndarray:
    """A text that is longer than the model's windows, where they are not too long; without any, two."""
    length = module.window + ROOM // 2
    shape = (2, ROOM) if length <= ROOM or length > LONGEST else (1, length)
    return np.random.default_rng(0).integers(0, module.vocabulary, shape)


def _logits(module: Any, ids: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        found: np.ndarray = module.without_cache(torch.tensor(ids)).numpy()
    return found


def _ours(module: Any, made: WrittenModule, ids: np.ndarray, expected: np.ndarray, limit: float) -> list[Compared]:
    import jax.numpy as jnp

    from port.nn import decode, generate, prefill

    model = made.build(param_dtype=jnp.float64)
    room = ids.shape[1]
    prompt = room - STEPS
    logits, caches = prefill(model, ids[:, :prompt], room)
    found = [np.asarray(logits)]
    for place in range(prompt, room):
        logits, caches = decode(model, caches, ids[:, place : place + 1], place)
        found.append(np.asarray(logits))
    cached = _row("logits with caches, at every position", expected, np.concatenate(found, axis=1), limit)
    tokens = np.asarray(generate(model, ids[:, :prompt], STEPS, room=room))
    return [cached, _likeliest(module, tokens, limit)]


def _likeliest(module: Any, tokens: np.ndarray, limit: float) -> Compared:
    """How far below the original's highest logit is that of each token that was chosen: 0, but for a tie's rounding."""
    before = _logits(module, tokens)[:, -STEPS - 1 : -1]
    chosen = np.take_along_axis(before, tokens[:, -STEPS:, None], axis=-1)[..., 0]
    return _row("the likeliest tokens' logits", before.max(axis=-1), chosen, limit)


def _row(what: str, theirs: np.ndarray, ours: np.ndarray, limit: float) -> Compared:
    apart = np.abs(theirs - ours)
    if apart.ndim == 3:
        apart = apart.max(axis=-1)
    worst = np.unravel_index(int(np.nan_to_num(apart, nan=np.inf).argmax()), apart.shape)
    difference = float(apart[worst] / np.abs(theirs).max())
    return Compared(what, difference, limit, f"text {worst[0]}, token {worst[1]}", apart.size, of="position")
