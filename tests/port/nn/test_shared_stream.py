"""port.nn.shared_masks: a translated module, unedited, drops what torch's drops under port.shared_dropout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx
from torch import nn
from torch.nn import functional as F

import port
from port.errors import UsageError
from port.nn import DropoutMasks, shared_masks
from port.nn.shared_stream import without_streams
from port.random import dropout_key, shared_dropout

SEED = 3


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


# %% Models, each with draws of other kinds


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, rate: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, rate
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate if self.training else 0.0, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, 2, rate)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        return x + F.dropout(self.down(F.gelu(self.up(x))), self.rate, self.training)


class Language(nn.Module):
    """A GPT: nn.Dropout, attention's dropout_p and F.dropout."""

    def __init__(self, rate: float = 0.2) -> None:
        super().__init__()
        self.tokens, self.drop = nn.Embedding(11, 8), nn.Dropout(0.1)
        self.blocks = nn.ModuleList([Block(8, rate) for _ in range(2)])
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.tokens(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x).mean(1)


class Images(nn.Module):
    """Channels last in JAX: whole channels, elements, and a flatten of which the order differs; branches that drop."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 6, 3), nn.Conv2d(6, 6, 3, padding=1)
        self.slopes, self.alpha = nn.RReLU(), nn.AlphaDropout(0.1)
        self.head = nn.Linear(6 * 3 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout2d(self.slopes(self.first(x)), 0.3, self.training)
        branch = self.second(F.dropout(x, 0.2, self.training))
        if self.training:
            branch = branch * branch.new_empty(len(x), 1, 1, 1).bernoulli_(0.7) / 0.7
        x = F.dropout(F.selu(x + branch).flatten(1), 0.4, self.training)
        return self.head(self.alpha(x))


class Layers(nn.Module):
    """Layers that drop inside themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(4, 6, num_layers=3, dropout=0.3, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(6, 2, 9, dropout=0.2, batch_first=True)
        self.attention = nn.MultiheadAttention(6, 3, dropout=0.25)
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.encoder(self.drop(self.recurrent(x)[0])).transpose(0, 1)
        return self.head(self.attention(x, x, x)[0].mean(0))


def words(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 11, (4, 7))


def pictures(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.5, 1, (4, 2, 5, 6))


def sequences(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.5, 1, (4, 7, 4))


MODELS: Any = [
    pytest.param((Language, words), id="Language"),
    pytest.param((Images, pictures), id="Images", marks=[pytest.mark.sweep, pytest.mark.daily(2)]),
    pytest.param((Layers, sequences), id="Layers", marks=[pytest.mark.sweep, pytest.mark.daily(3)]),
]


def losses_of_torch(model: nn.Module, inputs: Any, layouts: Any, steps: int = 3) -> list[float]:
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        with shared_dropout(model, dropout_key(SEED, step, x64=True), layouts=layouts):
            loss = F.cross_entropy(model(torch.from_numpy(inputs(step))), torch.arange(4))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of_flax(module: nnx.Module, translated: port.Translation, inputs: Any, steps: int = 3) -> list[float]:
    module.train()
    graphdef, params, rest = nnx.split(module, nnx.Param, ...)  # type: ignore[misc]
    optimizer = optax.sgd(0.1, momentum=0.9)

    def loss_fn(params: Any, x: Any, key: jax.Array) -> jax.Array:
        model: Any = nnx.merge(graphdef, params, rest, copy=True)
        with shared_masks(model, key):
            return optax.softmax_cross_entropy_with_integer_labels(model(*x), jnp.arange(4)).mean()

    @jax.jit
    def step_of(params: Any, state: Any, x: Any, key: jax.Array) -> Any:
        loss, gradients = jax.value_and_grad(loss_fn)(params, x, key)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    state, losses = optimizer.init(params), []
    for step in range(steps):
        key = jax.random.fold_in(jax.random.key(SEED), step)
        params, state, loss = step_of(params, state, translated.to_flax(torch.from_numpy(inputs(step))), key)
        losses.append(loss.item())
    return losses


@pytest.fixture(scope="module", params=MODELS)
def case(request: Any) -> Any:
    """A model, its translation, and what goes in."""
    cls, inputs = request.param
    with jax.enable_x64(True):
        torch.manual_seed(0)
        model = cls().double()
        return model, port.translate(model, (torch.from_numpy(inputs(0)),), check=False), inputs


@pytest.mark.sweep
def test_a_translated_module_trains_beside_the_original(case: Any) -> None:
    model, translated, inputs = case
    module = translated.build(param_dtype=jnp.float64)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    theirs = losses_of_torch(model, inputs, translated.draws[True])
    model.load_state_dict(state)
    np.testing.assert_allclose(losses_of_flax(module, translated, inputs), theirs, rtol=1e-12)
    assert theirs[0] != theirs[1]


@pytest.mark.parametrize("case", MODELS[:1], indirect=True)
@pytest.mark.parametrize("fault", ["another rate", "another order", "a missing dropout"])
@pytest.mark.sweep
def test_a_wrong_dropout_is_seen(case: Any, fault: str) -> None:
    model, translated, inputs = case
    module = translated.build(param_dtype=jnp.float64)
    block = module.blocks[1]
    if fault == "another rate":
        block.dropout.rate = 0.25
    elif fault == "another order":
        module.drop = AnotherFirst(module.drop)
    else:
        block.attention.dropout = lambda weights: weights
    state = {name: value.clone() for name, value in model.state_dict().items()}
    theirs = losses_of_torch(model, inputs, translated.draws[True], steps=1)
    model.load_state_dict(state)
    assert abs(losses_of_flax(module, translated, inputs, steps=1)[0] - theirs[0]) > 1e-4


class AnotherFirst(nnx.Module):
    """One draw comes before."""

    def __init__(self, dropout: nnx.Dropout) -> None:
        self.dropout, self.extra = dropout, nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.dropout(x + 0 * self.extra(x))


@pytest.mark.sweep
def test_a_draw_that_the_translation_does_not_have_is_an_error(case: Any) -> None:
    model, translated, inputs = case
    model.train()
    next(module for module in model.children() if isinstance(module, nn.Dropout | nn.AlphaDropout)).eval()
    key, layouts = dropout_key(SEED, 0, x64=True), translated.draws[True]
    with pytest.raises(UsageError, match="the translated module draws"), shared_dropout(model, key, layouts=layouts):
        model(torch.from_numpy(inputs(0)))


# %% The module itself


class Written(nnx.Module):
    """By hand: three kinds of stream."""

    def __init__(self, rngs: nnx.Rngs | None) -> None:
        self.drop = nnx.Dropout(0.4, rngs=rngs)
        self.slopes = port.nn.RReLU(rngs=rngs)
        self.rngs = rngs

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.drop(self.drop(x)) + self.slopes(-x)


def test_the_nth_draw_has_the_nth_key_and_the_streams_come_back() -> None:
    x, key = jnp.ones((5, 6)), jax.random.key(1)
    module = Written(nnx.Rngs(0))
    before = nnx.state(module)
    with shared_masks(module, key):
        y = module(x)
    masks = [jax.random.bernoulli(jax.random.fold_in(key, n), 0.6, x.shape) for n in (0, 1)]
    slopes = jax.random.uniform(jax.random.fold_in(key, 2), x.shape, x.dtype, 1 / 8, 1 / 3)
    np.testing.assert_allclose(y, masks[0] * masks[1] / 0.36 - slopes, rtol=1e-14)
    assert jax.tree.all(jax.tree.map(lambda a, b: a == b, before, nnx.state(module)))
    with shared_masks(bare := Written(None), key):
        np.testing.assert_array_equal(bare(x), y)
    assert bare.drop.rngs is None
    assert (module(x) != y).any(), "its own streams, again"


def test_a_module_without_streams_draws_within_it_alone() -> None:
    x, key = jnp.ones((5, 6)), jax.random.key(1)
    module = Written(nnx.Rngs(0))
    with shared_masks(module, key):
        y = module(x)
    without_streams(module)
    assert not jax.tree.leaves(nnx.state(module, nnx.RngState))
    with shared_masks(module, key):
        np.testing.assert_array_equal(module(x), y)
    with pytest.raises(UsageError, match=r"within port\.nn\.shared_masks"):
        module(x)


def test_rows_are_those_of_the_whole_batch() -> None:
    x, key, rows = jnp.ones((6, 5)), jax.random.key(1), jnp.array([4, 1])
    drop = nnx.Sequential(nnx.Dropout(0.4, rngs=nnx.Rngs(0)), nnx.Dropout(0.2, rngs=nnx.Rngs(0)))
    with shared_masks(drop, key):
        whole = drop(x)
    with shared_masks(drop, DropoutMasks(key, rows, 6)):
        part = drop(x[rows])
    np.testing.assert_array_equal(part, whole[rows])
    assert (part != whole[:2]).any()
    assert type(drop.layers[0]) is nnx.Dropout
    model = Written(nnx.Rngs(0))
    with pytest.raises(UsageError, match=r"other than nnx\.Dropout"), shared_masks(model, DropoutMasks(key, rows, 6)):
        model(x[rows])
