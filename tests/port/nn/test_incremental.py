"""`port.nn.cached`: a model that knows nothing of caches, read token by token, says what it says of the whole text."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.errors import UsageError
from port.nn import cached, decode, generate, prefill

from .generating import VOCABULARY, WIDTH, Model, whole

ROOM, PROMPT = 16, 4


def plain(**options: int) -> Model:
    model = Model(ROOM, caches=False, **options)
    model.eval()
    return model


def text(rows: int = 2, tokens: int = ROOM) -> jax.Array:
    return jax.random.randint(jax.random.key(0), (rows, tokens), 0, VOCABULARY)


def read(model: nnx.Module, ids: jax.Array, late: int = 0) -> jax.Array:
    logits, caches = prefill(model, ids[:, :PROMPT], ROOM)
    found = [logits]
    for position in range(PROMPT, ids.shape[1]):
        logits, caches = decode(model, caches, ids[:, position : position + 1], jnp.asarray(position + late))
        found.append(logits)
    return jnp.concatenate(found, axis=1)


@pytest.mark.sweep
def test_logits_at_every_position(float64: None) -> None:
    model = plain()
    expected = whole(model, text())
    reader = cached(model)
    assert len(reader.caches) == 4  # keys and values of two layers
    np.testing.assert_allclose(read(reader, text()), expected, rtol=0, atol=1e-12)
    assert float(jnp.abs(read(reader, text(), late=-1) - expected).max()) > 1e-3
    assert float(jnp.abs(read(cached(plain(window=4)), text()) - expected).max()) > 1e-3


@pytest.mark.sweep
def test_tokens_are_those_of_a_model_with_caches_of_its_own(float64: None) -> None:
    expected = generate(Model(ROOM), text(2, 3), 11, room=ROOM)
    assert jnp.array_equal(generate(cached(plain()), text(2, 3), 11, room=ROOM), expected)


class Odd(nnx.Module):
    """A model whose tokens meet as a function says."""

    def __init__(self, meet: Callable[[jax.Array], jax.Array]) -> None:
        rngs = nnx.Rngs(0)
        self.tokens = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs, param_dtype=jnp.float64)
        self.head = nnx.Linear(WIDTH, VOCABULARY, rngs=rngs, param_dtype=jnp.float64)
        self.meet = meet

    def __call__(self, ids: jax.Array) -> jax.Array:
        return self.head(self.meet(self.tokens(ids)))


def attention(x: jax.Array, *, keys_first: bool = False, spelled: str = "") -> jax.Array:
    """Of one head; products of matrices may stand in any order."""
    queries, keys = jnp.sin(x), jnp.cos(x)
    if spelled:
        scores = jnp.einsum(spelled, keys, queries) if keys_first else jnp.einsum(spelled, queries, keys)
    else:
        scores = (keys @ queries.mT).mT if keys_first else queries @ keys.mT
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    return x + jnp.einsum("bts,bsd->btd", weights, x)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "meet",
    [
        attention,
        lambda x: attention(x, keys_first=True),
        lambda x: attention(x, keys_first=True, spelled="bsd,btd->bts"),
        lambda x: attention(x, spelled="btd,bsd->bts"),
        lambda x: attention(jnp.concatenate([x[..., :6] * jnp.arange(x.shape[1])[:, None], x[..., 6:]], axis=-1)),
        lambda x: attention(sum(jnp.unstack(x.reshape(*x.shape[:2], 3, 4), axis=2)).repeat(3, axis=-1)),
        lambda x: attention(jnp.cumsum(x, axis=-1)[..., ::-1] + jnp.sort(x)),
        lambda x: attention(x)[:, -1:],
        lambda x: attention(x)[:, [-1]],
        lambda x: attention(
            sum(jnp.split(x, 2, axis=-1), jnp.zeros(())).reshape(*x.shape[:2], 2, -1).repeat(2, axis=2).reshape(x.shape)
        ),
    ],
)
def test_other_ways_of_saying_it(float64: None, meet: Callable[[jax.Array], jax.Array]) -> None:
    model = Odd(meet)
    found, expected = read(cached(model), text()), model(text())
    if expected.shape[1] == 1:  # of the last token alone
        expected = jnp.concatenate([model(text()[:, :end]) for end in range(PROMPT, ROOM + 1)], axis=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("meet", "said"),
    [
        (lambda x: jnp.cumsum(x, axis=1), "cumsum of"),
        (lambda x: x - x.mean(axis=1, keepdims=True), r"reduce_sum of \[2, 7, 12\] over the tokens"),
        (lambda x: x[:, ::-1], "rev of"),
        (lambda x: x + jnp.roll(x, 1, axis=1), "tokens other than the last"),
        (lambda x: x.reshape(-1, WIDTH)[None], "joins tokens with another axis"),
        (lambda x: jnp.einsum("ts,bsd->btd", jnp.ones((x.shape[1],) * 2), x), "dot_general of"),
    ],
)
def test_tokens_that_meet_otherwise_are_refused(
    float64: None, meet: Callable[[jax.Array], jax.Array], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        cached(Odd(meet))
