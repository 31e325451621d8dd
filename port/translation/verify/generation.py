"""Prove generation: with caches, the written module has the logits that the original has without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError
from port.judging import Compared
from port.parity.sides.copies import copied
from port.parity.sides.precision import cpu_precision, default_dtype
from port.translation.frontend.precision import in_float64
from port.translation.verify.proof import Proof, limits_of

if TYPE_CHECKING:
    import torch

    from port.translation.artifact.written_module import WrittenModule

STEPS, ROOM = 21, 24
"""Tokens read one at a time after a prompt; and tokens of a text, unless a window is longer."""
CACHED = "logits with caches, at every position"
LONG_PROMPT = "logits after a prompt longer than the window"
LIKELIEST = "the likeliest tokens' logits"
"""Rows of the proof."""
LONGEST = 4200
"""The most tokens of a text. The end of a longer window is not reached."""


@dataclass(frozen=True)
class Language:
    """An original language model.

    Attributes:
        logits: tokens (batch, tokens) → logits (batch, tokens, vocabulary), or those of the last token alone.
        vocabulary: how many different tokens there are.
        room: how many tokens of a text it takes.
        texts: how many texts are tried at once.
        window: how many tokens a layer with a sliding window sees; 0 if there is none.
    """

    logits: Callable[[np.ndarray], np.ndarray]
    vocabulary: int
    room: int = ROOM
    texts: int = 2
    window: int = 0

    @property
    def steps(self) -> int:
        """How many tokens are read one at a time."""
        return min(STEPS, self.room - 1)

    def text(self) -> np.ndarray:
        """Draw texts, (texts, room)."""
        return np.random.default_rng(0).integers(0, self.vocabulary, (self.texts, self.room))

    def everywhere(self, ids: np.ndarray) -> np.ndarray:
        """Return the logits after the prompt and after each token that follows, (batch, steps + 1, vocabulary)."""
        whole = self.logits(ids)
        if whole.shape[1] == ids.shape[1]:
            return whole[:, -self.steps - 1 :]
        ends = range(ids.shape[1] - self.steps, ids.shape[1] + 1)
        return np.concatenate([self.logits(ids[:, :end])[:, -1:] for end in ends], axis=1)


def with_generation(proof: Proof, module: torch.nn.Module, made: WrittenModule) -> Proof:
    """Extend a proof by that of generation, if the original has caches.

    Args:
        proof: that both sides compute the same in one call.
        module: the original, with weights. One with caches is `port.translation.frontend.causal.CachedOriginal`.
        made: the written module.
    """
    if not hasattr(module, "without_cache"):
        return proof
    wide: Any = copied(module, in_float64).eval()
    length = wide.window + ROOM // 2
    is_long = ROOM < length <= LONGEST
    room, texts = (length, 1) if is_long else (ROOM, 2)
    language = Language(_numpy(wide.without_cache), wide.vocabulary, room, texts, wide.window)
    if room <= wide.window:
        remark = f"generation: a text of {room:,} tokens does not reach the end of the window of {wide.window:,}"
        proof = replace(proof, remarks=(*proof.remarks, remark))
    return _proved(proof, language, made, lambda model: model)


def with_own_generation(proof: Proof, module: torch.nn.Module, made: WrittenModule) -> Proof:
    """Extend a proof by that of generation by `port.nn.cached`, for a model without caches.

    Args:
        proof: that both sides compute the same in one call.
        module: the original, called as ``module(ids)``.
        made: the written module.

    Raises:
        UsageError: the original is not causal, or its tokens meet in an operation that a cache cannot serve; the
            message names it.
    """
    from port.nn import cached

    wide = copied(module, in_float64).eval()
    with default_dtype("float64"):
        language = _language_of(_numpy(lambda ids: first_of(wide(ids))), type(module).__qualname__)
        _check_causal(language, type(module).__qualname__)
    language = replace(language, room=_taken(made, language.room))
    return _proved(proof, language, made, cached)


def _taken(made: WrittenModule, room: int) -> int:
    """Return how many tokens the written module takes: it may take fewer than the original."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    graph, state = nnx.split(made.build())

    def called(ids: jax.Array) -> Any:
        return nnx.merge(graph, state)(ids)

    for fewer in range(room, 3, -1):
        try:
            jax.eval_shape(called, jnp.zeros((2, fewer), int))
        except ValueError:  # of `port.nn.functional.expect`
            continue
        return fewer
    return room


def first_of(results: Any) -> Any:
    """Return the first tensor of a model's results."""
    while not hasattr(results, "shape"):
        results = next(iter(results.values() if isinstance(results, Mapping) else results))
    return results


def _language_of(logits: Callable[[np.ndarray], np.ndarray], name: str) -> Language:
    """Find how many tokens a model takes, and what it returns for them."""
    why: Exception | None = None
    for room in range(ROOM, 3, -1):
        try:
            found = logits(np.zeros((2, room), int))
        except Exception as error:
            why = error
            continue
        if found.ndim != 3 or found.shape[1] not in (1, room):
            raise UsageError(
                f"{name} returns {list(found.shape)} for tokens [2, {room}]: generation needs logits (batch, tokens, "
                "vocabulary), of all tokens or of the last alone"
            )
        return Language(logits, found.shape[-1], room)
    raise UsageError(
        f"{name} cannot be called with tokens alone, integers (batch, tokens), as generation calls it: "
        f"{type(why).__name__}: {str(why).partition(chr(10))[0]}"
    )


def _check_causal(language: Language, name: str) -> None:
    """Check that a token does not change the logits of earlier ones."""
    ids = language.text()
    other = ids.copy()
    other[:, -1] = (other[:, -1] + 1) % language.vocabulary
    before, after = language.logits(ids), language.logits(other)
    if before.shape[1] == 1:
        return  # the logits of the last token alone do not show it; the proof does
    changed = np.abs(before - after)[:, :-1].max(axis=(0, 2)) > 1e-6 * np.abs(before).max()
    if changed.any():
        raise UsageError(
            f"{name} is not causal: the logits of token {int(changed.argmax())} of {language.room} change with the "
            "last token. Generation with caches needs a model in which a token sees only itself and earlier ones: "
            "translate it without --generate"
        )


def _numpy(logits: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[np.ndarray], np.ndarray]:
    import torch

    def called(ids: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = logits(torch.tensor(ids)).numpy()
        return found

    return called


def _proved(proof: Proof, language: Language, made: WrittenModule, as_read: Callable[[Any], Any]) -> Proof:
    if proof.failed or not proof.rows:
        return proof
    limit = limits_of(proof.precision == "float32", made.mixed).forward
    with default_dtype("float64"):
        text = language.text()
        expected = language.everywhere(text)
        try:
            with cpu_precision(x64=True):
                import jax.numpy as jnp

                model = as_read(made.build(param_dtype=jnp.float64))
                found, tokens = _ours(model, language, text)
                after_long = _after_long_prompt(model, language, text)
        except UsageError:
            raise
        except Exception as error:
            return replace(proof, failed=f"generation: {type(error).__name__}: {error}")
        rows = [_row(CACHED, expected, found, limit), _likeliest(language, tokens, limit)]
        if after_long is not None:
            rows.append(_row(LONG_PROMPT, expected[:, -after_long.shape[1] :], after_long, limit))
    return replace(proof, rows=(*proof.rows, *rows))


def _ours(model: Any, language: Language, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return our logits after a prompt and after each token that follows, and the tokens that we generate."""
    import jax.numpy as jnp

    from port.nn import generate

    room, steps = language.room, language.steps
    prompt = jnp.asarray(ids)[:, : room - steps]
    return _read(model, ids, room - steps), np.asarray(generate(model, prompt, steps, room=room))


def _after_long_prompt(model: Any, language: Language, ids: np.ndarray) -> np.ndarray | None:
    """Return our last logits where the prompt overruns the window; None where it cannot."""
    prompt = language.room - 2
    return _read(model, ids, prompt) if 0 < language.window < prompt else None


def _read(model: Any, ids: np.ndarray, prompt: int) -> np.ndarray:
    """Read a prompt and then token by token; return the logits after the prompt and after each token."""
    import jax.numpy as jnp

    from port.nn import decode, prefill

    text, room = jnp.asarray(ids), ids.shape[1]
    logits, caches = prefill(model, text[:, :prompt], room)
    found = [np.asarray(logits)[:, -1:]]
    for place in range(prompt, room):
        logits, caches = decode(model, caches, text[:, place : place + 1], place)
        found.append(np.asarray(logits))
    return np.concatenate(found, axis=1)


def _likeliest(language: Language, tokens: np.ndarray, limit: float) -> Compared:
    """Compare the original's highest logits with those of the tokens that we chose: equal, but for rounding in ties."""
    if tokens.min() < 0:
        return Compared(LIKELIEST, np.inf, limit, "logits that are NaN", tokens.size, of="position")
    before = language.everywhere(tokens)[:, :-1]
    chosen = np.take_along_axis(before, tokens[:, -language.steps :, None], axis=-1)[..., 0]
    return _row(LIKELIEST, before.max(axis=-1), chosen, limit)


def _row(what: str, theirs: np.ndarray, ours: np.ndarray, limit: float) -> Compared:
    apart = np.abs(theirs - ours)
    places: Sequence[int] = apart.shape[:2]
    if apart.ndim == 3:
        apart = apart.max(axis=-1)
    worst = np.unravel_index(int(np.nan_to_num(apart, nan=np.inf).argmax()), places)
    difference = float(apart[worst] / np.abs(theirs).max())
    return Compared(what, difference, limit, f"text {worst[0]}, token {worst[1]}", apart.size, of="position")
