"""Generation with caches: what the model says without them, at every position; and the tokens that follow from it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.errors import UsageError
from port.nn import TokenCache, decode, generate, generation, prefill
from port.nn import cached as add_caches
from port.nn.functional import warped

from .generating import VOCABULARY, Model, whole

ROOM = 17


@pytest.fixture(params=[5, pytest.param(None, marks=pytest.mark.sweep)], ids=["ring", "all places"])
def model(float64: None, request: pytest.FixtureRequest) -> Model:
    return Model(ROOM, ring=request.param)


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


@pytest.mark.parametrize("more", [5, *(pytest.param(each, marks=pytest.mark.sweep) for each in (2, 9))])
def test_several_tokens_at_once(model: Model, more: int) -> None:
    logits, caches = prefill(model, text()[:, :4], ROOM)
    several, caches = decode(model, caches, text()[:, 4 : 4 + more], 4)
    last, _ = decode(model, caches, text()[:, 4 + more : 5 + more], 4 + more)
    found = jnp.concatenate([logits, several, last], axis=1)
    np.testing.assert_allclose(found, whole(model, text()[:, : 5 + more]), rtol=0, atol=1e-12)


def test_a_ring_has_the_places_of_its_window(float64: None) -> None:
    _, caches = prefill(Model(ROOM, ring=5), text(11), ROOM)
    assert [each.shape[-2] for each in caches] == [ROOM, ROOM, 5, 5]
    _, caches = prefill(Model(ROOM, ring=5), text(2), 3)
    assert [each.shape[-2] for each in caches] == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("options", "late"),
    [
        ({}, -1),
        ({"fault": "place"}, 0),
        ({"window": 4}, 0),
        ({"window": 6}, 0),
        ({"fault": "future"}, 0),
        pytest.param({"ring": 5}, -1, marks=pytest.mark.sweep),
        pytest.param({"ring": 5, "fault": "place"}, 0, marks=pytest.mark.sweep),
        pytest.param({"ring": 5, "fault": "future"}, 0, marks=pytest.mark.sweep),
        ({"ring": 4}, 0),
    ],
    ids=[
        "position",
        "place",
        "narrower",
        "wider",
        "future and unfilled places",
        "position in a ring",
        "place in a ring",
        "unfilled places in a ring",
        "a ring one place too small",
    ],
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


@pytest.mark.sweep
def test_drawn_tokens_follow_from_the_key(model: Model) -> None:
    options: Any = {"temperature": 0.7, "top_k": 6, "top_p": 0.9}
    ids, key = text(4), jax.random.key(3)
    found = generate(model, ids, 8, key=key, **options)
    for position in range(4, 12):
        logits = behind(model, found[:, :position])
        drawn = jax.random.categorical(jax.random.fold_in(key, position), warped(logits, **options))
        assert jnp.array_equal(drawn, found[:, position])
    assert not jnp.array_equal(found, generate(model, ids, 8, key=jax.random.key(4), **options))


@pytest.mark.sweep
def test_a_text_is_over_behind_its_end(model: Model) -> None:
    free = generate(model, text(4), 10)
    end = int(free[0, 6])
    found = generate(model, text(4), 10, end=[end], pad=VOCABULARY - 1)
    for row, known in zip(found, free, strict=True):
        places = [i for i in range(4, 14) if known[i] == end]
        last = places[0] + 1 if places else 14
        assert jnp.array_equal(row[:last], known[:last])
        assert (row[last:] == VOCABULARY - 1).all()


PADDED = np.asarray([[0, 0, 0, 1, 1, 1, 1, 1], [1] * 8, [0] * 7 + [1]])


def padded(lengths: tuple[int, ...] = (5, 8, 1)) -> jax.Array:
    """Prompts with padding on the left that is a token of the vocabulary, and not the same everywhere."""
    return jax.random.randint(jax.random.key(7), (len(lengths), 8), 0, VOCABULARY)


@pytest.mark.sweep
def test_a_padded_prompt_gives_the_tokens_that_it_gives_alone(model: Model) -> None:
    found = generate(model, padded(), 9, attention_mask=PADDED, room=ROOM)
    assert jnp.array_equal(found[:, :8], padded())
    for row, count in enumerate(PADDED.sum(axis=1)):
        alone = generate(model, padded()[row : row + 1, 8 - count :], 9, room=ROOM)
        assert jnp.array_equal(found[row, 8 - count :], alone[0]), row


@pytest.mark.sweep
def test_padding_that_is_read_is_seen(model: Model) -> None:
    right, ignored = (
        generate(model, padded(), 9, attention_mask=PADDED, room=ROOM),
        generate(model, padded(), 9, room=ROOM),
    )
    assert jnp.array_equal(right[1], ignored[1])
    assert not jnp.array_equal(right[0], ignored[0])
    assert not jnp.array_equal(right[2], ignored[2])


@pytest.mark.sweep
def test_padding_that_a_ring_keeps_is_seen(float64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(ROOM, ring=5)
    right = generate(model, padded(), 9, attention_mask=PADDED, room=ROOM)
    held = TokenCache.hold
    monkeypatch.setattr(TokenCache, "hold", lambda self, tokens=None, count=None: held(self, tokens))
    jax.clear_caches()
    wrong = generate(model, padded(), 9, attention_mask=PADDED, room=ROOM)
    jax.clear_caches()
    assert not jnp.array_equal(right, wrong)


@pytest.mark.sweep
def test_a_padded_text_is_over_after_its_end(model: Model) -> None:
    free = generate(model, padded(), 9, attention_mask=PADDED, room=ROOM)
    end = int(free[2, 10])
    found = generate(model, padded(), 9, attention_mask=PADDED, end=end, pad=VOCABULARY, room=ROOM)
    after = int(jnp.argmax(free[2, 8:] == end)) + 9
    assert jnp.array_equal(found[2, :after], free[2, :after])
    assert (found[2, after:] == VOCABULARY).all()


class Plain(nnx.Module):
    """A language model without caches, whose attention is jax's own."""

    def __init__(self) -> None:
        options: Any = {"rngs": nnx.Rngs(0), "param_dtype": jnp.float64}
        self.tokens, self.positions = nnx.Embed(VOCABULARY, 12, **options), nnx.Embed(ROOM, 12, **options)
        self.attended = nnx.LinearGeneral(12, (3, 4, 3), **options)
        self.out, self.head = nnx.Linear(12, 12, **options), nnx.Linear(12, VOCABULARY, **options)

    def __call__(self, ids: jax.Array) -> jax.Array:
        x = self.tokens(ids) + self.positions(jnp.arange(ids.shape[1]))
        query, key, value = jnp.moveaxis(self.attended(x), 2, 0)
        read = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        return self.head(x + self.out(read.reshape(x.shape)))


def test_a_model_of_ones_own_takes_padded_prompts(float64: None) -> None:
    model = add_caches(Plain())
    found = generate(model, padded(), 9, attention_mask=PADDED, room=ROOM)
    for row, count in enumerate(PADDED.sum(axis=1)):
        alone = generate(model, padded()[row : row + 1, 8 - count :], 9, room=ROOM)
        assert jnp.array_equal(found[row, 8 - count :], alone[0]), row
    assert not jnp.array_equal(found, generate(model, padded(), 9, room=ROOM))


def test_without_caches_the_message_says_how_to_add_them(float64: None) -> None:
    with pytest.raises(UsageError, match=r"Plain has no TokenCache.*: add caches with port.nn.cached\(model\)"):
        generate(Plain(), text(4), 1)


@pytest.mark.parametrize("steps", [-1, 1.5])
def test_steps_that_are_no_number_of_tokens_are_refused(model: Model, steps: Any) -> None:
    with pytest.raises(UsageError, match="a whole number, 0 or more"):
        generate(model, text(4), steps)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (jnp.ones((2, 3), int), r"the shape of the prompts, \[2, 4\]"),
        (jnp.full((2, 4), 2), "1 for a token and 0 for padding"),
        (jnp.asarray([[1, 1, 1, 1], [1, 1, 0, 0]]), "prompt 1 has padding after its first token. Pad on the left"),
        (jnp.asarray([[0, 0, 0, 0], [0, 0, 0, 1]]), "prompt 0 has no token"),
    ],
)
def test_a_mask_of_something_else_is_refused(model: Model, mask: jax.Array, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        generate(model, text(4), 1, attention_mask=mask)


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
        (text(4), ROOM - 3, {}, "room for 17 tokens, but 4 and 14 more are 18"),
        (text(4)[0], 1, {}, r"got int32\[4\]"),
        (text(4).astype(float), 1, {}, r"integers \(batch, tokens\)"),
        (text(0), 1, {}, "at least one"),
        (text(4), -1, {}, "0 or more; got -1"),
        (text(4), 1, {"temperature": 0.5}, "sampling needs a key"),
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


@pytest.mark.sweep
def test_behind_the_models_last_position_there_are_no_tokens(model: Model) -> None:
    found = generate(model, text(12), 9, room=ROOM + 8)
    assert jnp.array_equal(found[:, : ROOM + 1], generate(model, text(12), 6, room=ROOM + 8)[:, : ROOM + 1])
    assert (found[:, :ROOM] >= 0).all()
    assert (found[:, ROOM + 1 :] == generation.NONE).all()
