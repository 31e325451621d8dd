"""Text generation with cached keys and values: the prompt in one call, then one token a call.

The model is called as ``model(ids, position, places)``: tokens (batch, tokens), the position of the first of them, and
``jnp.arange(room)``, one number for each token that the caches have room for. It returns logits (batch, tokens,
vocabulary). Its attention layers have a `TokenCache` for keys and one for values. A model with a sliding window is
called as ``model(ids, position, places, window_positions)``; see `port.nn.token_cache.window_positions`.
Everything runs in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from port.errors import UsageError
from port.nn.functional.sampling import warped
from port.nn.token_cache import TokenCache, window_positions

NONE = -1
"""In place of a token where the logits are NaN: after the last position that a model has an embedding for."""
Caches = list[jax.Array]
"""The arrays of the key and value caches of each attention layer."""


class SamplingOptions(NamedTuple):
    """How a token is sampled; without a key, the likeliest is taken."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


def prefill(model: nnx.Module, ids: jax.Array, room: int) -> tuple[jax.Array, Caches]:
    """Read a prompt and fill the caches. Compiled once for each length of a prompt.

    Args:
        model: as above; it does not change.
        ids: (batch, tokens), integers.
        room: how many tokens the caches have room for. Caches of layers with a window of w tokens have at most w
            places.

    Returns:
        The logits at every position, (batch, tokens, vocabulary), and the caches after the prompt.

    Raises:
        UsageError: the model has no caches, or there are more tokens than there is room for.
    """
    ids = _checked(model, ids, 0, room)
    return _run(*nnx.split(model), None, ids, 0, jnp.arange(room))


def decode(model: nnx.Module, caches: Caches, ids: jax.Array, position: jax.Array | int) -> tuple[jax.Array, Caches]:
    """Read the next tokens. Compiled once for each number of tokens.

    The caches are donated: their memory becomes that of the caches returned.

    Args:
        model: as above; it does not change.
        caches: after all earlier tokens.
        ids: (batch, tokens), integers; most often one token.
        position: of the first of these tokens, which is the number of earlier tokens.

    Returns:
        The logits of these tokens, (batch, tokens, vocabulary), and the caches after them.

    Raises:
        UsageError: the model has no caches, or there is no room for these tokens. A position that is an array is not
            checked.
    """
    room = _room(model, caches)
    before = position if isinstance(position, int) else 0
    ids = _checked(model, ids, before, room)
    places = jnp.arange(caches[0].shape[-2] if room is None else room)
    return _run_on(*nnx.split(model), caches, ids, position, places)


def generate(
    model: nnx.Module,
    ids: jax.Array,
    steps: int,
    *,
    attention_mask: Any = None,
    key: jax.Array | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    end: int | Sequence[int] = (),
    pad: int = 0,
    room: int | None = None,
) -> jax.Array:
    """Return prompts with the tokens that follow them. The loop runs on the device, compiled once for each room.

    Args:
        model: as above; it does not change.
        ids: the prompts, (batch, tokens), integers. Shorter prompts have padding on the left, as in ``transformers``.
        steps: how many tokens to generate.
        attention_mask: (batch, tokens), 1 for a token and 0 for padding on the left; by default there is no padding.
            A padded prompt gives the tokens that it gives alone.
        key: samples tokens, the one in column i with ``jax.random.fold_in(key, i)``. Without a key, each token is the
            likeliest one; of equally likely ones, the first in the vocabulary.
        temperature: divides the logits before a token is sampled.
        top_k: sample from this many of the likeliest tokens; 0 for all.
        top_p: sample from the fewest likeliest tokens whose probabilities sum to this or more; 1 for all.
        end: tokens that end a text.
        pad: fills a text after its end.
        room: how many tokens the caches have room for; by default the next power of two.

    Returns:
        (batch, tokens + steps). A token is −1 where the logits are NaN, as they are after the last position that the
        model has an embedding for.

    Raises:
        UsageError: the model has no caches, the prompts or the mask are not as above, there are more tokens than
            there is room for, or a number is out of its range.
    """
    ids = _checked(model, ids, steps, room)
    padding = None if attention_mask is None else _padding(attention_mask, ids)
    sampling = _checked_sampling(key, temperature, top_k, top_p)
    if steps == 0:
        return ids
    graph, state = nnx.split(model)
    ends = jnp.atleast_1d(jnp.asarray(end, ids.dtype))
    length = ids.shape[1]
    places = jnp.arange(_enough(length + steps) if room is None else room)
    tokens = jnp.full((ids.shape[0], len(places)), pad, ids.dtype)
    tokens = jax.lax.dynamic_update_slice(tokens, ids, (0, 0))
    logits, caches = _last_of(graph, state, ids, places, padding)
    run = tokens, logits, caches, length, length + steps, places, padding, key, ends, pad
    return _continued(graph, sampling, state, *run)[:, : length + steps]


def _run_of(
    graph: Any,
    state: Any,
    caches: Caches | None,
    ids: jax.Array,
    position: jax.Array | int,
    places: jax.Array,
    count: jax.Array | None = None,
) -> tuple[jax.Array, Caches]:
    """Run the model on tokens of one length; after the first ``count`` of them is padding."""
    model: Any = nnx.merge(graph, state)
    model.eval()
    own = _caches(model)
    for number, each in enumerate(own):
        each.hold(None if caches is None else caches[number], count=count)
    at = [position, places]
    if (window := _window(own)) is not None:
        size = min(window, len(places))
        at.append(window_positions(position, ids.shape[1], size, is_empty=caches is None))
    return model(ids, *at), [each.held for each in own]


def _rows_of(
    graph: Any,
    state: Any,
    caches: Caches | None,
    ids: jax.Array,
    positions: jax.Array,
    places: jax.Array,
    counts: jax.Array | None = None,
) -> tuple[jax.Array, Caches]:
    """Run the model on a batch whose rows are at different positions, (batch,).

    The caches have an axis more, the first, for the rows. Each row's are those of a batch of one, whose axis of
    length 1 a traced model may lack.
    """

    def row(caches: Caches | None, ids: jax.Array, position: jax.Array, count: jax.Array | None) -> Any:
        logits, held = _run_of(graph, state, caches, ids[None], position, places, count)
        return logits[0], held

    found: tuple[jax.Array, Caches] = jax.vmap(row)(caches, ids, positions, counts)
    return found


_run = jax.jit(_run_of, static_argnums=0)
_run_on = jax.jit(_run_of, static_argnums=0, donate_argnums=2)


@partial(jax.jit, static_argnums=0)
def _last_of(
    graph: Any, state: Any, ids: jax.Array, places: jax.Array, padding: jax.Array | None
) -> tuple[jax.Array, Caches]:
    """Return the logits of each prompt's last token, (batch, vocabulary), and the caches after it."""
    if padding is None:
        logits, caches = _run_of(graph, state, None, ids, 0, places)
        return logits[:, -1], caches
    # Every text begins at position 0; what follows it is overwritten before a token sees it.
    length = ids.shape[1]
    columns = (jnp.arange(length) + padding[:, None]) % length
    ids, counts = jnp.take_along_axis(ids, columns, axis=1), length - padding
    logits, caches = _rows_of(graph, state, None, ids, jnp.zeros_like(padding), places, counts)
    return jnp.take_along_axis(logits, (counts - 1)[:, None, None], axis=1)[:, 0], caches


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3)
def _continued(
    graph: Any,
    sampling: SamplingOptions,
    state: Any,
    tokens: jax.Array,
    logits: jax.Array,
    caches: Caches,
    position: int,
    last: int,
    places: jax.Array,
    padding: jax.Array | None,
    key: jax.Array | None,
    ends: jax.Array,
    pad: int,
) -> jax.Array:
    """Generate the tokens from a column to the last: choose each, write it, and read it."""

    def choose(logits: jax.Array, position: jax.Array) -> jax.Array:
        logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
        if key is None:
            chosen = jnp.argmax(logits, axis=-1)
        else:
            chosen = jax.random.categorical(jax.random.fold_in(key, position), warped(logits, **sampling._asdict()))
        return jnp.where(jnp.isnan(logits).any(axis=-1), NONE, chosen)

    def goes_on(carry: Any) -> jax.Array:
        position, _, _, _, is_over = carry
        return (position < last) & ~jnp.all(is_over)

    def step(carry: Any) -> Any:
        position, tokens, logits, caches, is_over = carry
        chosen = jnp.where(is_over, pad, choose(logits, position)).astype(tokens.dtype)
        tokens = jax.lax.dynamic_update_slice(tokens, chosen[:, None], (0, position))
        if padding is None:
            logits, caches = _run_of(graph, state, caches, chosen[:, None], position, places)
        else:
            logits, caches = _rows_of(graph, state, caches, chosen[:, None], position - padding, places)
        return position + 1, tokens, logits[:, -1], caches, is_over | jnp.isin(chosen, ends)

    is_over = jnp.zeros(tokens.shape[0], bool)
    return jax.lax.while_loop(goes_on, step, (position, tokens, logits, caches, is_over))[1]


def _caches(model: nnx.Module) -> list[Any]:
    # By name: a standalone source has a copy of the class.
    return [each for _, each in nnx.iter_modules(model) if type(each).__name__ == TokenCache.__name__]


def _window(caches: Sequence[Any]) -> int | None:
    """Return the window of the layers that have one; they all have the same."""
    return next((cache.window for cache in caches if cache.window is not None), None)


def _room(model: nnx.Module, caches: Caches) -> int | None:
    """Return how many tokens some caches have room for; None if each is a ring of a whole window."""
    sizes = zip(_caches(model), (array.shape[-2] for array in caches), strict=True)
    return next((size for cache, size in sizes if cache.window is None or size < cache.window), None)


def _enough(tokens: int) -> int:
    """Round up to a power of two, so that few lengths are compiled."""
    return 1 << (tokens - 1).bit_length()


def _checked(model: nnx.Module, ids: Any, more: int, room: int | None) -> jax.Array:
    """Return tokens as an array, if there is room for them and for so many more.

    Raises:
        UsageError: there is no room, they are not tokens, or the model has no caches.
    """
    if not _caches(model):
        raise UsageError(
            f"{type(model).__name__} has no TokenCache, which holds the keys or values of earlier tokens: add caches "
            "with port.nn.cached(model), or translate the original with --generate"
        )
    ids = jnp.asarray(ids)
    if ids.ndim != 2 or not jnp.issubdtype(ids.dtype, jnp.integer) or 0 in ids.shape:
        raise UsageError(
            f"tokens must be integers (batch, tokens), at least one of each; got {ids.dtype}{list(ids.shape)}"
        )
    if not isinstance(more, int | np.integer) or more < 0:
        raise UsageError(f"steps is how many tokens to generate, a whole number, 0 or more; got {more}")
    if room is not None and ids.shape[1] + more > room:
        raise UsageError(
            f"the caches have room for {room} tokens, but {ids.shape[1]} and {more} more are {ids.shape[1] + more}: "
            "generate fewer, or pass a larger room"
        )
    return ids


def _padding(attention_mask: Any, ids: jax.Array) -> jax.Array | None:
    """Return how many columns of padding each prompt has on its left, (batch,); None if there is none.

    Raises:
        UsageError: the mask is none of padding on the left.
    """
    mask = np.asarray(attention_mask)
    if mask.shape != ids.shape or not np.isin(mask, (0, 1)).all():
        raise UsageError(
            f"attention_mask must have the shape of the prompts, {list(ids.shape)}, with 1 for a token and 0 for "
            f"padding; got {mask.dtype}{list(mask.shape)}"
        )
    padding = (mask == 0).sum(axis=1)
    for row, count in enumerate(padding):
        if count == mask.shape[1]:
            raise UsageError(f"attention_mask: prompt {row} has no token, only padding")
        if mask[row, :count].any():
            raise UsageError(
                f"attention_mask: prompt {row} has padding after its first token. Pad on the left: "
                'tokenizer.padding_side = "left"'
            )
    return jnp.asarray(padding, jnp.int32) if padding.any() else None


def _checked_sampling(key: jax.Array | None, temperature: float, top_k: int, top_p: float) -> SamplingOptions:
    made = SamplingOptions(temperature, top_k, top_p)
    if key is None and made != SamplingOptions():
        raise UsageError(
            "sampling needs a key: pass key=jax.random.key(0), or leave temperature, top_k and top_p out to take the "
            "likeliest tokens"
        )
    for name, is_right, range_ in (
        ("temperature", temperature > 0, "above 0 (without a key, the likeliest token is taken)"),
        ("top_k", top_k >= 0, "0, for all, or more"),
        ("top_p", 0 < top_p <= 1, "above 0 and at most 1"),
    ):
        if not is_right:
            raise UsageError(f"{name} must be {range_}; got {getattr(made, name)}")
    return made
