"""Text generation with cached keys and values: the prompt in one call, then one token at a time.

The model is called as ``model(ids, position, places)``: ids (batch, tokens), the position of the first of them, and
``jnp.arange(room)``, where room is the number of tokens that the caches hold. It returns logits (batch, tokens,
vocabulary). Each attention layer has one `TokenCache` for keys and one for values. The model always runs in evaluation
mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.functional.sampling import warped
from port.nn.token_cache import TokenCache

NONE = -1
"""Returned instead of a token where the logits are NaN: past the last position that the model has an embedding for."""
Caches = list[jax.Array]
"""The keys and the values of each attention layer."""


class Drawing(NamedTuple):
    """How a token is drawn; without a key the most likely one is taken."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


def prefill(model: nnx.Module, ids: jax.Array, room: int) -> tuple[jax.Array, Caches]:
    """Run the model on a prompt; return the logits at every position, and the filled caches.

    Compiled once for each prompt length.

    Args:
        model: as described above; not changed.
        ids: (batch, tokens).
        room: number of tokens that the caches hold.

    Raises:
        UsageError: the model has no caches, or there are more tokens than ``room``.
    """
    ids = _checked(model, ids, 0, room)
    return _run(*nnx.split(model), None, ids, 0, jnp.arange(room))


def decode(model: nnx.Module, caches: Caches, ids: jax.Array, position: jax.Array | int) -> tuple[jax.Array, Caches]:
    """Run the model on the next tokens; return their logits, and the updated caches.

    Compiled once. ``caches`` are donated: the returned caches reuse their memory.

    Args:
        model: as described above; not changed.
        caches: of all previous tokens.
        ids: (batch, tokens), usually one token.
        position: of the first of these tokens, the number of previous ones.

    Raises:
        UsageError: the model has no caches, or no room for these tokens; an array for position is not checked.
    """
    room = caches[0].shape[-2]
    before = position if isinstance(position, int) else 0
    return _run_on(*nnx.split(model), caches, _checked(model, ids, before, room), position, jnp.arange(room))


def generate(
    model: nnx.Module,
    ids: jax.Array,
    steps: int,
    *,
    key: jax.Array | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    end: int | Sequence[int] = (),
    pad: int = 0,
    room: int | None = None,
) -> jax.Array:
    """Extend prompts by generated tokens. The loop runs on the device, and is compiled once for each ``room``.

    Args:
        model: as described above; not changed.
        ids: the prompts, (batch, tokens), all of the same length.
        steps: number of tokens to generate.
        key: to sample; the token at position i is drawn with ``jax.random.fold_in(key, i)``. Without it decoding is
            greedy; among equal logits the first in the vocabulary wins.
        temperature: divides the logits before a token is drawn.
        top_k: draw among this many of the most likely tokens; 0 for all.
        top_p: draw among the smallest set of most likely tokens whose probabilities sum to this or more; 1 for all.
        end: end-of-text tokens.
        pad: fills the result after an end token.
        room: number of tokens that the caches hold; by default the smallest sufficient power of two.

    Returns:
        (batch, tokens + steps). Where the logits are NaN, as past the last position that the model has an embedding
        for, the token is −1.

    Raises:
        UsageError: the model has no caches; ids that are not token ids; more tokens than ``room``; an option out of
            range.
    """
    ids = _checked(model, ids, steps, room)
    drawing = _drawing(key, temperature, top_k, top_p)
    if steps == 0:
        return ids
    graph, state = nnx.split(model)
    ends = jnp.atleast_1d(jnp.asarray(end, ids.dtype))
    length = ids.shape[1]
    places = jnp.arange(_enough(length + steps) if room is None else room)
    tokens = jnp.full((ids.shape[0], len(places)), pad, ids.dtype)
    tokens = jax.lax.dynamic_update_slice(tokens, ids, (0, 0))
    logits, caches = _last_of(graph, state, ids, places)
    given = tokens, logits, caches, length, length + steps, places, key, ends, pad
    return _continued(graph, drawing, state, *given)[:, : length + steps]


def _run_of(
    graph: Any, state: Any, caches: Caches | None, ids: jax.Array, position: jax.Array | int, places: jax.Array
) -> tuple[jax.Array, Caches]:
    model: Any = nnx.merge(graph, state)
    model.eval()
    own = _caches(model)
    for number, cache in enumerate(own):
        cache.hold(None if caches is None else caches[number])
    return model(ids, position, places), [cache.held for cache in own]


_run = jax.jit(_run_of, static_argnums=0)
_run_on = jax.jit(_run_of, static_argnums=0, donate_argnums=2)


@partial(jax.jit, static_argnums=0)
def _last_of(graph: Any, state: Any, ids: jax.Array, places: jax.Array) -> tuple[jax.Array, Caches]:
    """Return only the logits after a prompt."""
    logits, caches = _run_of(graph, state, None, ids, 0, places)
    return logits[:, -1], caches


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3)
def _continued(
    graph: Any,
    drawing: Drawing,
    state: Any,
    tokens: jax.Array,
    logits: jax.Array,
    caches: Caches,
    position: int,
    last: int,
    places: jax.Array,
    key: jax.Array | None,
    ends: jax.Array,
    pad: int,
) -> jax.Array:
    """Generate tokens from a position to the last: choose each, write it, and run the model on it."""

    def choose(logits: jax.Array, position: jax.Array) -> jax.Array:
        logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
        if key is None:
            chosen = jnp.argmax(logits, axis=-1)
        else:
            chosen = jax.random.categorical(jax.random.fold_in(key, position), warped(logits, **drawing._asdict()))
        return jnp.where(jnp.isnan(logits).any(axis=-1), NONE, chosen)

    def goes_on(carry: Any) -> jax.Array:
        position, _, _, _, is_over = carry
        return (position < last) & ~jnp.all(is_over)

    def step(carry: Any) -> Any:
        position, tokens, logits, caches, is_over = carry
        chosen = jnp.where(is_over, pad, choose(logits, position)).astype(tokens.dtype)
        tokens = jax.lax.dynamic_update_slice(tokens, chosen[:, None], (0, position))
        logits, caches = _run_of(graph, state, caches, chosen[:, None], position, places)
        return position + 1, tokens, logits[:, -1], caches, is_over | jnp.isin(chosen, ends)

    is_over = jnp.zeros(tokens.shape[0], bool)
    return jax.lax.while_loop(goes_on, step, (position, tokens, logits, caches, is_over))[1]


def _caches(model: nnx.Module) -> list[Any]:
    # By name: --standalone sources have a copy of the class.
    return [each for _, each in nnx.iter_modules(model) if type(each).__name__ == TokenCache.__name__]


def _enough(tokens: int) -> int:
    """Round up to a power of two, so that few lengths are compiled."""
    return 1 << (tokens - 1).bit_length()


def _checked(model: nnx.Module, ids: Any, more: int, room: int | None) -> jax.Array:
    """Return tokens as an array, after checking that they and ``more`` tokens fit into ``room``.

    Raises:
        UsageError: they do not fit, or are not token ids; or the model has no caches.
    """
    if not _caches(model):
        raise UsageError(
            f"{type(model).__name__} has no TokenCache, which holds the keys or values of previous tokens: "
            "translate the original with --generate"
        )
    ids = jnp.asarray(ids)
    if ids.ndim != 2 or not jnp.issubdtype(ids.dtype, jnp.integer) or 0 in ids.shape:
        raise UsageError(
            f"token ids must be integers (batch, tokens), one or more of each; got {ids.dtype}{list(ids.shape)}"
        )
    if more < 0:
        raise UsageError(f"steps, the number of tokens to generate, must be 0 or more; got {more}")
    if room is not None and ids.shape[1] + more > room:
        raise UsageError(
            f"there is room for {room} tokens, but the {ids.shape[1]} given and {more} new ones are "
            f"{ids.shape[1] + more}: generate fewer, or pass a larger room"
        )
    return ids


def _drawing(key: jax.Array | None, temperature: float, top_k: int, top_p: float) -> Drawing:
    made = Drawing(temperature, top_k, top_p)
    if key is None and made != Drawing():
        raise UsageError(
            "sampling options need a key: pass key=jax.random.key(0), or leave them out to decode greedily"
        )
    for name, is_right, range_ in (
        ("temperature", temperature > 0, "above 0; to take the most likely token, pass no key"),
        ("top_k", top_k >= 0, "0, for all, or more"),
        ("top_p", 0 < top_p <= 1, "above 0, and 1 at most"),
    ):
        if not is_right:
            raise UsageError(f"{name} must be {range_}; got {getattr(made, name)}")
    return made
