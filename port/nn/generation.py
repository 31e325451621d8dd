"""Tokens that a language model goes on with: the prompt at once, then one token at a time, with cached keys and values.

The model is called as ``model(ids, position)``: tokens (batch, tokens), of which the first stands at that position; and
gives logits (batch, tokens, vocabulary). Its attention layers have a `KVCache` each. Everything is done in evaluation.
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
from port.nn.kv_cache import KeysAndValues, KVCache

Caches = list[KeysAndValues]
"""Of each attention layer."""


class Drawing(NamedTuple):
    """How a token is drawn; the likeliest is taken where there is no key."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


def prefill(model: nnx.Module, ids: jax.Array) -> tuple[jax.Array, Caches]:
    """Read a prompt: its logits at every position, and the caches behind it.

    It is compiled once for each length of a prompt.

    Args:
        model: as above; it stays as it is.
        ids: (batch, tokens).

    Raises:
        UsageError: no such model, or more tokens than its caches have room for.
    """
    ids = _checked(model, ids, 0)
    return _run(*nnx.split(model), None, ids, 0)


def decode(model: nnx.Module, caches: Caches, ids: jax.Array, position: jax.Array | int) -> tuple[jax.Array, Caches]:
    """Read the tokens that follow: their logits, and the caches behind them.

    It is compiled once. The caches that are given are used up: their memory is that of those that come.

    Args:
        model: as above; it stays as it is.
        caches: of all tokens before.
        ids: (batch, tokens), most often one.
        position: of the first of these tokens: how many there were before.
    """
    return _run_on(*nnx.split(model), caches, jnp.asarray(ids), position)


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
) -> jax.Array:
    """A prompt with the tokens that follow it. The loop is on the device, and compiled once for all lengths.

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

    Returns:
        (batch, tokens + steps).

    Raises:
        UsageError: no such model, or prompts; more tokens than its caches have room for; a number out of its range.
    """
    ids = _checked(model, ids, steps)
    drawing = _drawing(key, temperature, top_k, top_p)
    if steps == 0:
        return ids
    graph, state = nnx.split(model)
    ends = jnp.atleast_1d(jnp.asarray(end, ids.dtype))
    length = ids.shape[1]
    room = jnp.full((ids.shape[0], _room(model) + 1), pad, ids.dtype)
    tokens = jax.lax.dynamic_update_slice(room, ids, (0, 0))
    logits, caches = _last_of(graph, state, ids)
    given = tokens, logits, caches, length, length + steps, key, ends, pad
    return _continued(graph, drawing, state, *given)[:, : length + steps]


def _run_of(
    graph: Any, state: Any, caches: Caches | None, ids: jax.Array, position: jax.Array | int
) -> tuple[jax.Array, Caches]:
    model: Any = nnx.merge(graph, state)
    model.eval()
    own = _caches(model)
    for number, cache in enumerate(own):
        cache.hold(None if caches is None else caches[number])
    return model(ids, position), [cache.held for cache in own]


_run = jax.jit(_run_of, static_argnums=0)
_run_on = jax.jit(_run_of, static_argnums=0, donate_argnums=2)


@partial(jax.jit, static_argnums=0)
def _last_of(graph: Any, state: Any, ids: jax.Array) -> tuple[jax.Array, Caches]:
    """The logits behind a prompt alone."""
    logits, caches = _run_of(graph, state, None, ids, 0)
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
    key: jax.Array | None,
    ends: jax.Array,
    pad: int,
) -> jax.Array:
    """Tokens from a position to the last: each is chosen, written, and read."""

    def choose(logits: jax.Array, position: jax.Array) -> jax.Array:
        logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
        if key is None:
            return jnp.argmax(logits, axis=-1)
        return jax.random.categorical(jax.random.fold_in(key, position), warped(logits, **drawing._asdict()))

    def goes_on(carry: Any) -> jax.Array:
        position, _, _, _, is_over = carry
        return (position < last) & ~jnp.all(is_over)

    def step(carry: Any) -> Any:
        position, tokens, logits, caches, is_over = carry
        chosen = jnp.where(is_over, pad, choose(logits, position)).astype(tokens.dtype)
        tokens = jax.lax.dynamic_update_slice(tokens, chosen[:, None], (0, position))
        logits, caches = _run_of(graph, state, caches, chosen[:, None], position)
        return position + 1, tokens, logits[:, -1], caches, is_over | jnp.isin(chosen, ends)

    is_over = jnp.zeros(tokens.shape[0], bool)
    return jax.lax.while_loop(goes_on, step, (position, tokens, logits, caches, is_over))[1]


def _caches(model: nnx.Module) -> list[KVCache]:
    return [each for _, each in nnx.iter_modules(model) if isinstance(each, KVCache)]


def _room(model: nnx.Module) -> int:
    """For how many tokens a model's caches have room.

    Raises:
        UsageError: it has none.
    """
    lengths = [cache.length for cache in _caches(model)]
    if not lengths:
        raise UsageError(
            f"{type(model).__name__} has no KVCache, which holds the keys and values of the tokens before: translate "
            "the original with --generate"
        )
    return min(lengths)


def _checked(model: nnx.Module, ids: jax.Array, steps: int) -> jax.Array:
    ids, room = jnp.asarray(ids), _room(model)
    if ids.ndim != 2 or not jnp.issubdtype(ids.dtype, jnp.integer) or 0 in ids.shape:
        raise UsageError(
            f"a prompt is whole numbers (batch, tokens), one or more of each; got {ids.dtype}{list(ids.shape)}"
        )
    if steps < 0:
        raise UsageError(f"steps is how many tokens follow the prompt, 0 or more; got {steps}")
    if ids.shape[1] + steps > room:
        raise UsageError(
            f"the caches of {type(model).__name__} have room for {room} tokens; the prompt's {ids.shape[1]} and "
            f"{steps} more are {ids.shape[1] + steps}: ask for fewer, or build the model with longer caches"
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
