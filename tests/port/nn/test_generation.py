"""Generation with caches: what the model says without them, at every position; and the tokens that follow from it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.errors import UsageError
from port.nn import decode, generate, generation, prefill
from port.nn.functional import warped

from .generating import VOCABULARY, Model, whole

ROOM = 17


@pytest.fixture
def model(float64: None) -> Model:
    return Model(ROOM)


def text(tokens: int = ROOM, seed: int = 0) -> jax.Array:
    return jax.random.randint(jax.random.key(seed), (2, tokens), 0, VOCABULARY)


def cached(model: Model, ids: jax.Array, prompt: int, late: int = 0) -> jax.Array:
    """Logits at all positions: of a prompt at once, then of each token; positions may be wrong by so many."""
    logits, caches = prefill(model, ids[:, :prompt], ROOM)
    found = [logits]
    for position in range(prompt, ids.shape[1]):
        logits, caches = decode(model, caches, ids[:, position : position + 1], position + late)
        found.append(logits)
    return jnp.concatenate(found, axis=1)


@pytest.mark.parametrize("prompt", [1, 4, 11])
def test_logits_are_those_without_a_cache(model: Model, prompt: int) -> None:
    np.testing.assert_allclose(cached(model, text(), prompt), whole(model, text()), rtol=0, atol=1e-12)


def test_several_tokens_at_once(model: Model) -> None:
    logits, caches = prefill(model, text()[:, :4], ROOM)
    more, caches = decode(model, caches, text()[:, 4:9], 4)
    last, _ = decode(model, caches, text()[:, 9:10], 9)
    found = jnp.concatenate([logits, more, last], axis=1)
    np.testing.assert_allclose(found, whole(model, text()[:, :10]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "late"),
    [({}, -1), ({"fault": "place"}, 0), ({"window": 4}, 0), ({"window": 6}, 0), ({"fault": "future"}, 0)],
    ids=["position", "place", "narrower", "wider", "future and unfilled places"],
)
def test_a_fault_is_seen(model: Model, options: Any, late: int) -> None:
    found = cached(Model(ROOM, **options), text(), 6, late)
    assert float(jnp.abs(found - whole(model, text())).max()) > 1e-3


def behind(model: Model, ids: jax.Array) -> jax.Array:
    """The logits behind the last token: of a text filled up, so that one length is compiled."""
    return whole(model, jnp.pad(ids, ((0, 0), (0, ROOM - ids.shape[1]))))[:, ids.shape[1] - 1]


def greedy(model: Model, ids: jax.Array, steps: int) -> jax.Array:
    for _ in range(steps):
        ids = jnp.concatenate([ids, behind(model, ids).argmax(-1, keepdims=True).astype(ids.dtype)], axis=1)
    return ids


@pytest.mark.parametrize(("prompt", "steps"), [(5, 12), (1, 3), (4, 0), (16, 1)])
def test_the_likeliest_tokens(model: Model, prompt: int, steps: int) -> None:
    expected = greedy(model, text(prompt), steps)
    assert jnp.array_equal(generate(model, text(prompt), steps, room=ROOM), expected)


def test_the_model_stays_as_it_is(model: Model) -> None:
    before, _ = nnx.split(model)
    generate(model, text(4), 3)
    after, _ = nnx.split(model)
    assert before == after
    assert not model.dropout.deterministic


def test_drawn_tokens_follow_from_the_key(model: Model) -> None:
    options: Any = {"temperature": 0.7, "top_k": 6, "top_p": 0.9}
    ids, key = text(4), jax.random.key(3)
    found = generate(model, ids, 8, key=key, **options)
    for position in range(4, 12):
        logits = behind(model, found[:, :position])
        drawn = jax.random.categorical(jax.random.fold_in(key, position), warped(logits, **options))
        assert jnp.array_equal(drawn, found[:, position])
    assert not jnp.array_equal(found, generate(model, ids, 8, key=jax.random.key(4), **options))


def test_a_text_is_over_behind_its_end(model: Model) -> None:
    free = generate(model, text(4), 10)
    end = int(free[0, 6])
    found = generate(model, text(4), 10, end=[end], pad=VOCABULARY - 1)
    for row, known in zip(found, free, strict=True):
        places = [i for i in range(4, 14) if known[i] == end]
        last = places[0] + 1 if places else 14
        assert jnp.array_equal(row[:last], known[:last])
        assert (row[last:] == VOCABULARY - 1).all()


def test_it_is_compiled_once(model: Model) -> None:
    generate(model, text(4), 3, room=ROOM)
    loops, prompts = generation._continued._cache_size(), generation._last_of._cache_size()
    generate(model, text(4), 7, room=ROOM)
    assert (generation._continued._cache_size(), generation._last_of._cache_size()) == (loops, prompts)
    generate(model, text(6), 7, room=ROOM)  # another length of a prompt
    assert (generation._continued._cache_size(), generation._last_of._cache_size()) == (loops, prompts + 1)


@pytest.mark.parametrize(
    ("ids", "steps", "options", "said"),
    [
        (text(4), ROOM - 3, {}, "room for 17 tokens, but the 4 given and 14 new ones are 18"),
        (text(4)[0], 1, {}, r"got int32\[4\]"),
        (text(4).astype(float), 1, {}, r"integers \(batch, tokens\)"),
        (text(0), 1, {}, "one or more"),
        (text(4), -1, {}, "0 or more; got -1"),
        (text(4), 1, {"temperature": 0.5}, "need a key"),
        (text(4), 1, {"key": jax.random.key(0), "temperature": 0.0}, "temperature must be above 0"),
        (text(4), 1, {"key": jax.random.key(0), "top_p": 1.5}, "top_p must be above 0"),
        (text(4), 1, {"key": jax.random.key(0), "top_k": -1}, "top_k must be 0"),
    ],
)
def test_bad_input_is_refused(model: Model, ids: jax.Array, steps: int, options: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        generate(model, ids, steps, room=ROOM, **options)


def test_a_model_without_caches_is_refused() -> None:
    with pytest.raises(UsageError, match="Linear has no TokenCache"):
        generate(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), text(4), 1)


def test_a_token_without_room_is_refused(model: Model) -> None:
    _, caches = prefill(model, text(4), 5)
    _, caches = decode(model, caches, text(1), 4)
    with pytest.raises(UsageError, match="room for 5 tokens"):
        decode(model, caches, text(1), 5)


def test_behind_the_models_last_position_there_are_no_tokens(model: Model) -> None:
    found = generate(model, text(12), 9, room=ROOM + 8)
    assert jnp.array_equal(found[:, : ROOM + 1], generate(model, text(12), 6, room=ROOM + 8)[:, : ROOM + 1])
    assert (found[:, :ROOM] >= 0).all()
    assert (found[:, ROOM + 1 :] == generation.NONE).all()
