"""Tokens that a language model goes on with: the prompt at once, then one token at a time, with cached keys and values.

The model is called as ``model(ids, position, places)``: tokens (batch, tokens), of which the first stands at that
position, and as many places as there is room for tokens, ``jnp.arange(room)``; and gives logits (batch, tokens,
vocabulary). Its attention layers have a `TokenCache` for keys, and one for values.
Everything is done in evaluation.
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
"""In place of a token, where the logits are no numbers: behind the last position that a model has an embedding for."""
Caches = list[jax.Array]
"""Of keys and of values, of each attention layer."""


class Drawing(NamedTuple):
    """How a token is drawn; the likeliest is taken where there is no key."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


def prefill(model: nnx.Module, ids: jax.Array, room: int) -> tuple[jax.Array, Caches]:
    """Read a prompt: its logits at every position, and the caches behind it.

    It is compiled once for each length of a prompt.

    Args:
        model: as above; it stays as it is.
        ids: (batch, tokens).
        room: for how many tokens the caches have room.

    Raises:
        UsageError: no such model, or more tokens than there is room for.
    """
    ids = _checked(model, ids, 0, room)
    return _run(*nnx.split(model), None, ids, 0, jnp.arange(room))


def decode(model: nnx.Module, caches: Caches, ids: jax.Array, position: jax.Array | int) -> tuple[jax.Array, Caches]:
    """Read the tokens that follow: their logits, and the caches behind them.

    It is compiled once. The caches that are given are used up: their memory is that of those that come.

    Args:
        model: as above; it stays as it is.
        caches: of all tokens before.
        ids: (batch, tokens), most often one.
        position: of the first of these tokens: how many there were before.

    Raises:
        UsageError: no such model, or no room for these tokens; where the position is an array, it is not looked at.
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
    """A prompt with the tokens that follow it. The loop is on the device, and compiled once for one room.

    Args:
        model: as above; it stays as it is.
        ids: the prompts, (batch, tokens), all of one length.
        steps: how many tokens follow.
        key: tokens are drawn with it, the token at position i with ``jax.random.fold_in(key, i)``; without it, each is
            the likeliest, and of equal ones the first in the vocabulary.
        temperature: the logits are divided by it before a token is drawn.
        top_k: a token is drawn from so many of the likeliest; 0 for all.
        top_p: from the fewest of the likeliest whose probabilities sum to this or more; 1 for all.
        end: tokens behind which a text is over.
        pad: what stands behind these.
        room: for how many tokens the caches have room; by default the power of two that is enough.

    Returns:
        (batch, tokens + steps). Where the logits are no numbers, as behind the last position that the model has an
        embedding for, −1 stands in place of a token.

    Raises:
        UsageError: no such model, or prompts; more tokens than there is room for; a number out of its range.
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
    """The logits behind a prompt alone."""
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
    """Tokens from a position to the last: each is chosen, written, and read."""

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
    # By name: a source that stands alone has a copy of the class.
    return [each for _, each in nnx.iter_modules(model) if type(each).__name__ == TokenCache.__name__]


def _enough(tokens: int) -> int:
    """A power of two, so that few lengths are compiled."""
    return 1 << (tokens - 1).bit_length()


def _checked(model: nnx.Module, ids: Any, more: int, room: int | None) -> jax.Array:
    """Tokens as an array, for which, and for so many more, there is room.

    Raises:
        UsageError: there is not, or they are none; or the model has no caches.
    """
    if not _caches(model):
        raise UsageError(
            f"{type(model).__name__} has no TokenCache, which holds the keys or values of the tokens before: "
            "translate the original with --generate"
        )
    ids = jnp.asarray(ids)
    if ids.ndim != 2 or not jnp.issubdtype(ids.dtype, jnp.integer) or 0 in ids.shape:
        raise UsageError(
            f"tokens are whole numbers (batch, tokens), one or more of each; got {ids.dtype}{list(ids.shape)}"
        )
    if more < 0:
        raise UsageError(f"steps is how many tokens follow the prompt, 0 or more; got {more}")
    if room is not None and ids.shape[1] + more > room:
        raise UsageError(
            f"there is room for {room} tokens, and {ids.shape[1]} and {more} more are {ids.shape[1] + more}: ask for "
            "fewer, or give more room"
        )
    return ids


def _drawing(key: jax.Array | None, temperature: float, top_k: int, top_p: float) -> Drawing:
    made = Drawing(temperature, top_k, top_p)
    if key is None and made != Drawing():
        raise UsageError(
            "tokens are drawn with a key: give one, key=jax.random.key(0), or leave the likeliest be taken"
        )
    for name, is_right, range_ in (
        ("temperature", temperature > 0, "above 0; the likeliest token is taken without a key"),
        ("top_k", top_k >= 0, "0, for all, or more"),
        ("top_p", 0 < top_p <= 1, "above 0, and 1 at most"),
    ):
        if not is_right:
            raise UsageError(f"{name} is {range_}; got {getattr(made, name)}")
    return made
