"""Proof of generation: with caches, the written module says at every position what the original says without them."""

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
"""Tokens that are read one at a time, behind a prompt; and those of a text, if no window is longer."""
LIKELIEST = "the likeliest tokens' logits"
"""A row of the proof."""
LONGEST = 4200
"""Of a text: a longer window's end is not reached."""


@dataclass(frozen=True)
class Language:
    """What an original says of a text.

    Attributes:
        logits: of tokens (batch, tokens): (batch, tokens, vocabulary), or of the last alone.
        vocabulary: how many tokens there are.
        room: tokens of a text that it takes.
        texts: how many are tried at once.
    """

    logits: Callable[[np.ndarray], np.ndarray]
    vocabulary: int
    room: int = ROOM
    texts: int = 2

    @property
    def steps(self) -> int:
        """Tokens that are read one at a time."""
        return min(STEPS, self.room - 1)

    def text(self) -> np.ndarray:
        """Any tokens do."""
        return np.random.default_rng(0).integers(0, self.vocabulary, (self.texts, self.room))

    def everywhere(self, ids: np.ndarray) -> np.ndarray:
        """Its logits behind the prompt, and behind each token that follows: (batch, steps + 1, vocabulary)."""
        whole = self.logits(ids)
        if whole.shape[1] == ids.shape[1]:
            return whole[:, -self.steps - 1 :]
        ends = range(ids.shape[1] - self.steps, ids.shape[1] + 1)
        return np.concatenate([self.logits(ids[:, :end])[:, -1:] for end in ends], axis=1)


def with_generation(proof: Proof, module: torch.nn.Module, made: WrittenModule) -> Proof:
    """A proof, and where the original is one with caches, that of its generation as well.

    Args:
        proof: that both sides do the same in one call.
        module: the original, with numbers. One with caches is `port.translation.frontend.causal.WithCaches`.
        made: what was written.
    """
    if not hasattr(module, "without_cache"):
        return proof
    wide: Any = copied(module, in_float64).eval()
    length = wide.window + ROOM // 2
    is_long = ROOM < length <= LONGEST
    language = Language(_numpy(wide.without_cache), wide.vocabulary, length if is_long else ROOM, 1 if is_long else 2)
    if language.room <= wide.window:
        remark = f"generation: of a window of {wide.window:,} tokens the end is not reached by {language.room:,}"
        proof = replace(proof, remarks=(*proof.remarks, remark))
    return _proved(proof, language, made, lambda model: model)


def with_own_generation(proof: Proof, module: torch.nn.Module, made: WrittenModule) -> Proof:
    """A proof, and that of generation by `port.nn.cached`, of a model that knows nothing of caches.

    Args:
        proof: that both sides do the same in one call.
        module: the original, called as ``module(ids)``.
        made: what was written.

    Raises:
        UsageError: the original is not causal, or its tokens meet otherwise than a cache can serve; says where.
    """
    from port.nn import cached

    wide = copied(module, in_float64).eval()
    with default_dtype("float64"):
        language = _language_of(_numpy(lambda ids: first_of(wide(ids))), type(module).__qualname__)
        _check_causal(language, type(module).__qualname__)
    language = replace(language, room=_taken(made, language.room))
    return _proved(proof, language, made, cached)


def _taken(made: WrittenModule, room: int) -> int:
    """The tokens of a text that the written module takes too: it may take fewer than the original."""
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
    """The first tensor of what a model gives."""
    while not hasattr(results, "shape"):
        results = next(iter(results.values() if isinstance(results, Mapping) else results))
    return results


def _language_of(logits: Callable[[np.ndarray], np.ndarray], name: str) -> Language:
    """With as many tokens of a text as a model takes."""
    why: Exception | None = None
    for room in range(ROOM, 3, -1):
        try:
            found = logits(np.zeros((2, room), int))
        except Exception as error:
            why = error
            continue
        if found.ndim != 3 or found.shape[1] not in (1, room):
            raise UsageError(
                f"{name} gives {list(found.shape)} for tokens [2, {room}]: generation takes logits (batch, tokens, "
                "vocabulary), of all tokens or of the last alone"
            )
        return Language(logits, found.shape[-1], room)
    raise UsageError(
        f"{name} does not take whole numbers (batch, tokens) alone, as generation gives them: "
        f"{type(why).__name__}: {str(why).partition(chr(10))[0]}"
    )


def _check_causal(language: Language, name: str) -> None:
    """See that a token changes nothing of what is said of those before it."""
    ids = language.text()
    other = ids.copy()
    other[:, -1] = (other[:, -1] + 1) % language.vocabulary
    before, after = language.logits(ids), language.logits(other)
    if before.shape[1] == 1:
        return  # of the last token alone nothing shows it; the proof does
    changed = np.abs(before - after)[:, :-1].max(axis=(0, 2)) > 1e-6 * np.abs(before).max()
    if changed.any():
        raise UsageError(
            f"{name} is not causal: what it says of token {int(changed.argmax())} of {language.room} changes with the "
            "last token. Generation with caches is of models in which a token sees itself and those before it: "
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

                found, tokens = _ours(as_read(made.build(param_dtype=jnp.float64)), language, text)
        except UsageError:
            raise
        except Exception as error:
            return replace(proof, failed=f"generation: {type(error).__name__}: {error}")
        rows = [
            _row("logits with caches, at every position", expected, found, limit),
            _likeliest(language, tokens, limit),
        ]
    return replace(proof, rows=(*proof.rows, *rows))


def _ours(model: Any, language: Language, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Our logits behind a prompt and behind each token that follows; and the tokens that we go on with."""
    import jax.numpy as jnp

    from port.nn import decode, generate, prefill

    room, steps, text = language.room, language.steps, jnp.asarray(ids)
    prompt = text[:, : room - steps]
    logits, caches = prefill(model, prompt, room)
    found = [np.asarray(logits)[:, -1:]]
    for place in range(room - steps, room):
        logits, caches = decode(model, caches, text[:, place : place + 1], place)
        found.append(np.asarray(logits))
    return np.concatenate(found, axis=1), np.asarray(generate(model, prompt, steps, room=room))


def _likeliest(language: Language, tokens: np.ndarray, limit: float) -> Compared:
    """How far below the original's highest logit is that of each token that was chosen: 0, but for a tie's rounding."""
    if tokens.min() < 0:
        return Compared(LIKELIEST, np.inf, limit, "logits that are no numbers", tokens.size, of="position")
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
